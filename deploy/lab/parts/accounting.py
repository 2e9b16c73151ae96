"""Slurm accounting on the rack's controller: a real slurmdbd on a real MariaDB. Without it Slurm keeps no accounts."""

from deploy.lab.container import run_checked_in_node, run_in_node
from deploy.lab.layout import CONTROLLER, NODES, Rack, Role
from deploy.lab.programs import LabRefusal
from deploy.lab.readiness import wait_for_slurm, wait_until

# settings of a small database, kept in memory like all of a node's files
MARIADB_CONF = """\
[mariadbd]
skip-networking
performance_schema=OFF
innodb_log_file_size=4M
innodb_buffer_pool_size=16M
"""
SLURMDBD_CONF = f"""\
AuthType=auth/munge
DbdHost={CONTROLLER.name}
SlurmUser=slurm
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageUser=slurm
StorageLoc=slurm_acct_db
"""
CREATE_DATABASE_SQL = (
    "create database slurm_acct_db; create user slurm@localhost identified via unix_socket; grant all on slurm_acct_db.* to slurm@localhost"
)
STORAGE_OFF, STORAGE_ON = "accounting_storage/none", "accounting_storage/slurmdbd"
SLURM_CONF = "/etc/slurm/slurm.conf"


def start_accounting(rack: Rack) -> None:
    """Start accounting for all jobs from now on. Raises LabRefusal."""
    _write_file(rack, "/etc/mysql/conf.d/lab.cnf", MARIADB_CONF)
    _write_file(rack, "/etc/slurm/slurmdbd.conf", SLURMDBD_CONF)
    run_checked_in_node(rack, CONTROLLER, "sh", "-c", "chown slurm /etc/slurm/slurmdbd.conf; chmod 600 /etc/slurm/slurmdbd.conf")
    if run_in_node(rack, CONTROLLER, "test", "-d", "/var/lib/mysql/mysql").returncode:
        run_checked_in_node(rack, CONTROLLER, "install", "-d", "-o", "mysql", "-g", "mysql", "/var/lib/mysql")
        run_checked_in_node(rack, CONTROLLER, "mariadb-install-db", "--user=mysql", "--skip-test-db", seconds=60)
        run_checked_in_node(rack, CONTROLLER, "systemctl", "start", "mariadb", seconds=60)
        run_checked_in_node(rack, CONTROLLER, "mariadb", "-e", CREATE_DATABASE_SQL)
    run_checked_in_node(rack, CONTROLLER, "systemctl", "start", "mariadb", "slurmdbd", seconds=60)
    _replace_storage(rack, STORAGE_OFF, STORAGE_ON)
    wait_until(lambda: run_in_node(rack, CONTROLLER, "sacctmgr", "-n", "show", "cluster").returncode == 0, "slurmdbd does not answer")
    run_in_node(rack, CONTROLLER, "sacctmgr", "-i", "add", "cluster", "lab")  # fails harmlessly if the cluster is already registered
    _restart_slurm(rack, STORAGE_ON)


def stop_accounting(rack: Rack) -> None:
    """Stop accounting and its daemons."""
    _replace_storage(rack, STORAGE_ON, STORAGE_OFF)
    _restart_slurm(rack, STORAGE_OFF)
    run_checked_in_node(rack, CONTROLLER, "systemctl", "stop", "slurmdbd", "mariadb", seconds=60)


def forget_jobs(rack: Rack) -> None:
    """Make the controller forget its jobs, as it does some minutes after they end (MinJobAge)."""
    run_checked_in_node(rack, CONTROLLER, "systemctl", "stop", "slurmctld")
    run_checked_in_node(rack, CONTROLLER, "sh", "-c", "rm -f /var/lib/slurm/slurmctld/job_state*")
    run_checked_in_node(rack, CONTROLLER, "systemctl", "start", "slurmctld")
    wait_for_slurm(rack)


def _write_file(rack: Rack, path: str, text: str) -> None:
    run_checked_in_node(rack, CONTROLLER, "sh", "-c", f"cat > {path}", stdin=text)


def _replace_storage(rack: Rack, old: str, new: str) -> None:
    for node in NODES:
        if node.role is not Role.PLAIN:
            run_checked_in_node(rack, node, "sed", "-i", f"s#{old}$#{new}#", SLURM_CONF)


def _restart_slurm(rack: Rack, storage: str) -> None:
    for node in NODES:
        if node.role is not Role.PLAIN:
            run_checked_in_node(rack, node, "systemctl", "restart", "slurmctld" if node is CONTROLLER else "slurmd")
    wait_until(lambda: _uses_storage(rack, storage), f"slurmctld does not run with {storage}")


def _uses_storage(rack: Rack, storage: str) -> bool:
    try:
        return storage in run_checked_in_node(rack, CONTROLLER, "scontrol", "show", "config")
    except LabRefusal:
        return False
