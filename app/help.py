"""What ``--help`` prints: every option on one line, with its real default."""

from collections.abc import Mapping

HELP = """\
usage: train_fit.py [--image FILE | --scene SCENE | --sequence DATA] [options]
       train_fit.py compare RUN ... | render RUN | export RUN (see --help)

Fits a small network without and with an encoding and shows what it recovers.

Input
  --image FILE          image file or bundled sample; cat if nothing is given
  --images FILE ...     several images, or folders of images
  --scene SCENE         folder of posed images; blocks, cloud, spheres, struts
  --sequence DATA       .txt, .tsv or bAbI folder; docstrings, stories, numbers,
                        sources
  --size N              first reduce images to N pixels along the longer side
  --held-out            fit every second pixel, evaluate those between
  --test-views N --exposure    of a scene (25); gains of photographs, learned
  --background NAME     of views: auto, white, black, random (auto)
Encoding
  --encodings NAME ...  none fourier hash gaussian hash-internal local-cosine
                        (none fourier hash); of a sequence its model's;
                        auto: none and the best by forecast for an image
  --bands L             bands of fourier: sin, cos of 2^k pi x, k < L (10)
  --sigma S             of gaussian, cycles per unit; auto (0.09 of Nyquist)
  --finest N            nodes per axis of hash's finest level (one per pixel)
Model
  --network NAME        of images: relu siren finer gauss wire mfn (relu)
  --field NAME          of scenes: small nerf mip factored auto (small)
  --model NAME          of sequences: transformer causal conv bert memn2n
                        memory-network self-attentive (the first that fits)
  --width N --depth N   hidden layers (256 x 4; hash 64 x 2; scene 128 x 4)
  --parameters N        the largest models of an image within N parameters
  --context N           characters of a window (32; causal 128; bert 48 words)
  --heads N             attention heads (4)
  --hops N              of a memory network (3); rows of self-attentive (6)
  --tying NAME          of memn2n: adjacent, layer-wise (adjacent)
  --linear-start --random-noise    of memn2n's training
  --beam N              width of the beam search; 1 is greedy (1)
Training
  --steps N             of each fit (image 600, scene 700; GPU 2000, 5000)
  --seconds S           train each fit so long instead, by the clock
  --batch-size N        pixels or rays (8192, 1024; GPU 65536, 8192)
  --optimizer NAME      muon, adam, or auto: muon for relu, else adam (auto)
  --lr X                peak learning rate (by network and optimizer)
  --seed N              of weights and batches (0)
  --seeds N             of a sequence: so many models at once (1)
  --stack NAME          train --images as one model: auto, on, off (auto)
Output
  --out DIR             run folder (a new one under runs/)
  --overwrite           let --out be a folder with files
  --resume RUN          go on with a run that was interrupted
  --save-every S        seconds between saves of a fit (60)
  --video N             frames of the training video, 0 for none (16)
  --turntable N         frames of a scene's turntable, 0 for none (20)
  --figures --live      figures for print as PNG and SVG; fits in progress
  --open --quiet        open the report in the browser; print errors only
Advanced
  --device NAME         auto, cpu, cuda, cuda:N, mps (auto)
  --precision NAME      auto, float32, bfloat16 (auto)
  --compile             compile an image's model first
  --max-pixels N        refuse larger image files (200000000)
  --version --help      docs/options.md says more about each option
"""

COMMAND_HELP: Mapping[str, str] = {
    "compare": """\
usage: train_fit.py compare RUN ... [options]

Writes one page that compares runs: their fits beside each other, by image.

  RUN ...               run folders; of several images, those of the images
  --out FILE            page to write, .html (a new one under runs/)
  --overwrite           let --out be an existing file
""",
    "render": """\
usage: train_fit.py render RUN [options]

Renders a saved fit: an image at any resolution, a scene from any camera.

  RUN                   run folder, or the file of a fit
  --encoding NAME       which fit (that of the highest PSNR)
  --size N              pixels along the longer side (one per fitted pixel)
  --crop X Y W H        part of an image, in its pixels
  --cameras FILE        cameras of a scene, as transforms.json
  --turntable N         frames around a scene, if there are no --cameras (60)
  --out FILE            .png, .jpg, .tif, .webp; frames .mp4, .webp or a folder
                        (a new one in the run folder)
  --overwrite           let --out exist already
  --device NAME         auto, cpu, cuda, cuda:N, mps (auto)
  --quiet               print errors only
""",
    "export": """\
usage: train_fit.py export RUN --onnx | --page [options]

Writes saved fits for other programs, or as a page in which they run.

  RUN                   run folder, or the file of a fit
  --onnx                an ONNX model: from coordinates to RGB; of a scene from
                        positions and directions to density and RGB
  --page                an HTML page that runs the fits of an image with ReLU
                        networks: zoom past the pixels
  --encoding NAME       which fit (that of the highest PSNR; a page has all)
  --out FILE            file to write (NAME.onnx, page.html in the run folder)
  --overwrite           let --out exist already
""",
}
"""What ``--help`` prints after a command."""
