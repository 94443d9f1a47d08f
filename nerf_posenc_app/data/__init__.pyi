from nerf_posenc_app.data.errors import SceneError as SceneError
from nerf_posenc_app.data.image_files import MAX_PIXELS as MAX_PIXELS
from nerf_posenc_app.data.image_files import open_image as open_image
from nerf_posenc_app.data.posed.camera_path import open_cameras as open_cameras
from nerf_posenc_app.data.scene_files import open_folder as open_folder
from nerf_posenc_app.data.scene_files import open_scene as open_scene
