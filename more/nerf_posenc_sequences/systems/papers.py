"""BibTeX of the papers that systems are from."""

VASWANI = (
    "@inproceedings{vaswani2017attention, title={Attention Is All You Need}, "
    "author={Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, "
    "Llion and Gomez, Aidan N. and Kaiser, Lukasz and Polosukhin, Illia}, booktitle={NeurIPS}, "
    "year={2017}}"
)
GEHRING = (
    "@inproceedings{gehring2017convolutional, title={Convolutional Sequence to Sequence "
    "Learning}, author={Gehring, Jonas and Auli, Michael and Grangier, David and Yarats, Denis "
    "and Dauphin, Yann N.}, booktitle={ICML}, year={2017}}"
)
DEVLIN = (
    "@inproceedings{devlin2019bert, title={{BERT}: Pre-training of Deep Bidirectional "
    "Transformers for Language Understanding}, author={Devlin, Jacob and Chang, Ming-Wei and Lee, "
    "Kenton and Toutanova, Kristina}, booktitle={NAACL-HLT}, year={2019}}"
)
SU = (
    "@article{su2021roformer, title={{RoFormer}: Enhanced Transformer with Rotary Position "
    "Embedding}, author={Su, Jianlin and Lu, Yu and Pan, Shengfeng and Murtadha, Ahmed and Wen, "
    "Bo and Liu, Yunfeng}, journal={arXiv preprint arXiv:2104.09864}, year={2021}}"
)
PRESS = (
    "@inproceedings{press2022train, title={Train Short, Test Long: Attention with Linear Biases "
    "Enables Input Length Extrapolation}, author={Press, Ofir and Smith, Noah A. and Lewis, Mike}, "
    "booktitle={ICLR}, year={2022}}"
)
SUKHBAATAR = (
    "@inproceedings{sukhbaatar2015end, title={End-To-End Memory Networks}, author={Sukhbaatar, "
    "Sainbayar and Szlam, Arthur and Weston, Jason and Fergus, Rob}, booktitle={NeurIPS}, "
    "year={2015}}"
)
WESTON = (
    "@inproceedings{weston2015memory, title={Memory Networks}, author={Weston, Jason and Chopra, "
    "Sumit and Bordes, Antoine}, booktitle={ICLR}, year={2015}}"
)
LIN = (
    "@inproceedings{lin2017structured, title={A Structured Self-attentive Sentence Embedding}, "
    "author={Lin, Zhouhan and Feng, Minwei and dos Santos, Cicero Nogueira and Yu, Mo and Xiang, "
    "Bing and Zhou, Bowen and Bengio, Yoshua}, booktitle={ICLR}, year={2017}}"
)
GOPALAKRISHNAN = (
    "@article{gopalakrishnan2025decoupling, title={Decoupling the ``What'' and ``Where'' With "
    "Polar Coordinate Positional Embeddings}, author={Gopalakrishnan, Anand and Csord{\\'a}s, "
    "R{\\'o}bert and Schmidhuber, J{\\\"u}rgen and Mozer, Michael C.}, journal={arXiv preprint "
    "arXiv:2509.10534}, year={2025}}"
)
