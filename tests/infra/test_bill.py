"""The guide's bill is what the price list makes of it."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import bill  # noqa: E402


class Bill(unittest.TestCase):
    def test_the_guide_has_it(self):
        guide = (bill.ROOT / "docs/DEPLOY.md").read_text()
        prices = bill.prices()
        self.assertIn(bill.table(prices), guide, "run tests/infra/bill.py and put its table into docs/DEPLOY.md")
        self.assertIn(prices["date"], guide)

    def test_another_price_is_another_table(self):
        prices = bill.prices()
        prices["transfer"]["to_internet_gb"] *= 2
        self.assertNotIn(bill.table(prices), (bill.ROOT / "docs/DEPLOY.md").read_text())

    def test_an_epoch_brings_a_third_of_a_gigabyte_home(self):
        _, _, answered, _ = bill.epoch()
        self.assertAlmostEqual(answered / 1e9, 0.32, delta=0.02)


if __name__ == "__main__":
    unittest.main()
