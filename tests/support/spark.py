"""A Spark of this machine for the tests: classic and Connect sessions of one Java process."""

import os
import shutil
import socket
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

PARTITIONS = 4
QUIET = """
rootLogger.level = off
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
"""


@contextmanager
def sessions(folder, master=f"local[{PARTITIONS}]", **settings):
    """Start Spark, yield a classic session and a Connect session, and stop it.

    Parameters
    ----------
    folder : path
        For what Spark writes.
    master : str
        Where it runs: on threads of one process, or as `local-cluster[workers, cores, MB]`.
    **settings
        Further settings, with `_` instead of `.` in their names.
    """
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        pytest.skip("Spark needs Java, and there is none on this machine")
    sql = pytest.importorskip("pyspark.sql")
    remote = pytest.importorskip("pyspark.sql.connect.session", reason="Spark Connect is not installed")
    log = Path(folder) / "log4j2.properties"
    log.write_text(QUIET)
    port = _free_port()
    of_session = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log}",
        "spark.executor.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log}",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": Path(folder) / "warehouse",
        "spark.sql.shuffle.partitions": PARTITIONS,
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": port,
    } | {name.replace("_", "."): value for name, value in settings.items()}
    builder = sql.SparkSession.builder.master(master).appName("debias")
    for name, value in of_session.items():
        builder = builder.config(name, str(value))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", sys.executable)  # the Python of the workers
        classic = builder.getOrCreate()
        try:
            connect = remote.SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
            try:
                yield classic, connect
            finally:
                connect.stop()
        finally:
            _stop(classic)


def _stop(classic):
    """Stop Spark and its Java process, which pyspark would leave to the end of Python."""
    gateway = classic.sparkContext._gateway
    classic.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    type(classic.sparkContext)._gateway = type(classic.sparkContext)._jvm = None


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
