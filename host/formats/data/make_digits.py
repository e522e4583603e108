"""Makes digits.bin.gz of scikit-learn's copy of the UCI digits: python3 make_digits.py digits.bin.gz"""
import gzip
import sys

import numpy
from sklearn.datasets import load_digits

digits = load_digits()
rows = numpy.concatenate([digits.target[:, None], digits.data], axis=1).astype(numpy.uint8)
assert rows.shape == (1797, 65) and (rows == numpy.concatenate([digits.target[:, None], digits.data], axis=1)).all()
with open(sys.argv[1], "wb") as file:
    file.write(gzip.compress(rows.tobytes(), 9, mtime=0))
