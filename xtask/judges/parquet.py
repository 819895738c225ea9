"""Whether DuckDB and Polars read from Parquet what `platter report --group-by` says of the same reports.

Arguments: the program (built with the feature parquet), and an empty directory.
"""

import json
import math
import pathlib
import random
import subprocess
import sys

import duckdb
import polars

PROGRAM, HERE = sys.argv[1], pathlib.Path(sys.argv[2])
MACHINES = 60
COLUMNS = ["rack", "workload", "case", "target", "machines", "low", "median", "high"]


def platter(*arguments):
    return subprocess.run([PROGRAM, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def make_reports():
    """A real report, and what other machines might have measured."""
    measure = ["run", "overhead", "--target", "refs", "--device", "mem:1G", "--time", "0.1", "--repeat", "1", "--json"]
    real = platter(*measure, "--label", "rack=none", "--parquet", str(HERE / "one"))
    assert len(list((HERE / "one").glob("*.parquet"))) == 1
    dice = random.Random(8664)
    (HERE / "reports").mkdir()
    for number in range(MACHINES):
        report = json.loads(real)
        report["environment"]["host"] = f"node{number}"
        report["labels"] = {"rack": f"r{number % 3}", "quoted": 'a "b" ü'}
        for result in report["results"]:
            result["iops"] *= math.exp(dice.gauss(0, 0.1))
        (HERE / "reports" / f"{number}.json").write_text(json.dumps(report))
    platter("report", str(HERE / "reports"), "--parquet", str(HERE / "tables"))


def of_platter():
    """The rows of the tables that people read, with figures as they are printed."""
    text = platter("report", str(HERE / "reports"), "--group-by", "label.rack", "--markdown")
    rows, workload = {}, None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("**"):
            workload = line.strip("*").split(":")[0]
        elif len(cells) == 7 and cells[3].isdigit():
            case, target, rack, machines, *figures = cells
            rows[rack, workload, case, target] = [int(machines), *figures]
    assert len(rows) == 4 * 3, text
    return rows


def place(part):
    """Where the value of a quantile is among so many that are sorted."""
    return f"1 + round((count(*) - 1) * {part})::int"


def of_duckdb():
    table = duckdb.sql(
        f"""select labels['rack'] rack, workload, "case", target, count(distinct host)::int,
                   list_sort(list(iops))[{place(0.05)}], median(iops), list_sort(list(iops))[{place(0.95)}]
            from '{HERE}/tables/*.parquet' group by all"""
    )
    metadata = f"select distinct value from parquet_kv_metadata('{HERE}/tables/*.parquet') where key = 'platter.schema'"
    assert duckdb.sql(metadata).fetchall() == [(b"platter-parquet/1",)]
    quoted = duckdb.sql(f"select distinct labels['quoted'] from '{HERE}/tables/*.parquet'").fetchall()
    assert quoted == [('a "b" ü',)], quoted
    return {row[:4]: list(row[4:]) for row in table.fetchall()}


def of_polars():
    table = polars.read_parquet(f"{HERE}/tables/*.parquet")
    racks = [dict(labels)["rack"] for labels in table["labels"].to_list()]
    table = table.with_columns(polars.Series("rack", racks))
    rows = {}
    for names, group in table.group_by(["rack", "workload", "case", "target"]):
        rates = group["iops"].sort()
        at = lambda part: rates[math.floor((len(rates) - 1) * part + 0.5)]
        rows[names] = [group["host"].n_unique(), at(0.05), rates.median(), at(0.95)]
    return rows


def same(printed, value):
    """Whether a figure is the value, rounded to as many digits as are printed."""
    plain = printed.replace(",", "")
    factor = {"k": 1e3, "M": 1e6}.get(plain[-1], 1)
    digits = plain.rstrip("kM")
    decimals = len(digits.partition(".")[2])
    return abs(float(digits) * factor - value) <= 0.5000001 * factor / 10**decimals


make_reports()
expected = of_platter()
for name, found in [("DuckDB", of_duckdb()), ("Polars", of_polars())]:
    assert found.keys() == expected.keys(), (name, found.keys(), expected.keys())
    for key, (machines, *figures) in expected.items():
        assert machines == found[key][0] == MACHINES // 3, (name, key)
        for printed, value in zip(figures, found[key][1:]):
            assert same(printed, value), (name, key, printed, value)
    print(f"{name}: {len(found)} rows of {MACHINES} reports say the same as the report")
