import pytest

pytestmark = pytest.mark.integration


def test_x(spark, spark_sessions):
    def f(batches):
        import pyarrow as pa

        n = 0
        for b in batches:
            n += b.num_rows
        yield pa.RecordBatch.from_pydict({"n": [n]})

    for s in spark_sessions:
        assert sum(r.n for r in s.range(100).mapInArrow(f, "n long").collect()) == 100
