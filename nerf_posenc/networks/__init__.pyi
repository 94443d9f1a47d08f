from nerf_posenc.networks.implicit import MultiplicativeFilterNetwork as MultiplicativeFilterNetwork
from nerf_posenc.networks.implicit import finer as finer
from nerf_posenc.networks.implicit import gauss as gauss
from nerf_posenc.networks.implicit import siren as siren
from nerf_posenc.networks.implicit import wire as wire
from nerf_posenc.networks.mlp import MLP as MLP
from nerf_posenc.networks.mlp import hidden_matrices as hidden_matrices
from nerf_posenc.networks.mlp import num_parameters as num_parameters
