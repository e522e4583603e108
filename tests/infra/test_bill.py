"""The guide's bills are what the price list makes of them, and so is what the program's own bill is compared with."""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import bill  # noqa: E402


class Bill(unittest.TestCase):
    def test_the_guide_has_them(self):
        guide = (bill.ROOT / "docs/how-to/deploy-to-aws.md").read_text()
        prices = bill.prices()
        for transport in bill.INTERVALS:
            self.assertIn(bill.table(transport, prices), guide, "run tests/infra/bill.py and put its tables into docs/how-to/deploy-to-aws.md")
        self.assertIn(prices["date"], guide)

    def test_the_programs_bill_is_compared_with_these(self):
        kept = json.loads((bill.ROOT / "tests/infra/bill.json").read_text())
        self.assertEqual(kept, bill.compared(bill.prices()), "run tests/infra/bill.py --json > tests/infra/bill.json")

    def test_another_price_is_another_table(self):
        guide = (bill.ROOT / "docs/how-to/deploy-to-aws.md").read_text()
        for transport, price in (("s3", "to_internet_gb"), ("payload", "to_internet_gb"), ("payload", "between_zones_gb")):
            prices = bill.prices()
            prices["transfer"][price] *= 2
            self.assertNotIn(bill.table(transport, prices), guide)

    def test_an_epoch_brings_a_third_of_a_gigabyte_home(self):
        _, _, answered, _ = bill.epoch()
        self.assertAlmostEqual(answered / 1e9, 0.32, delta=0.02)

    def test_a_frame_of_the_second_run_fits_into_a_request(self):
        tasks = bill.INTERVALS["payload"]
        widest = bill.ROWS / tasks * (bill.FEATURES + bill.HIDDEN) * 4 + 4 * bill.FEATURES * bill.HIDDEN
        self.assertLess(widest, 4.7e6)

    def test_a_host_in_the_region_pays_no_internet(self):
        runs = bill.compared(bill.prices())
        for run in runs.values():
            home, region, zone = (run["usd"][place] for place in ("home", "region", "zone"))
            self.assertGreater(home, region)
            self.assertGreaterEqual(region, zone)
        self.assertEqual(runs["s3"]["usd"]["region"], runs["s3"]["usd"]["zone"])
        self.assertGreater(runs["payload"]["usd"]["region"], runs["payload"]["usd"]["zone"])


if __name__ == "__main__":
    unittest.main()
