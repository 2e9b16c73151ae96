"""Slurm accounting on the rack's controller: a real slurmdbd on a real MariaDB. Without it Slurm keeps no accounts."""

from deploy.lab.container import done, inside
from deploy.lab.layout import CONTROLLER, NODES, Rack, Role
from deploy.lab.programs import LabRefusal
from deploy.lab.settle import slurm_ready, until

# settings of a small database, kept in memory like all of a node's files
SMALL = """\
[mariadbd]
skip-networking
performance_schema=OFF
innodb_log_file_size=4M
innodb_buffer_pool_size=16M
"""
DAEMON = f"""\
AuthType=auth/munge
DbdHost={CONTROLLER.name}
SlurmUser=slurm
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageUser=slurm
StorageLoc=slurm_acct_db
"""
DATABASE = (
    "create database slurm_acct_db; create user slurm@localhost identified via unix_socket; grant all on slurm_acct_db.* to slurm@localhost"
)
OFF, ON = "accounting_storage/none", "accounting_storage/slurmdbd"
SETTINGS = "/etc/slurm/slurm.conf"


def start_accounting(rack: Rack) -> None:
    """Start accounting for all jobs from now on. Raises LabRefusal."""
    _write(rack, "/etc/mysql/conf.d/lab.cnf", SMALL)
    _write(rack, "/etc/slurm/slurmdbd.conf", DAEMON)
    done(rack, CONTROLLER, "sh", "-c", "chown slurm /etc/slurm/slurmdbd.conf; chmod 600 /etc/slurm/slurmdbd.conf")
    if inside(rack, CONTROLLER, "test", "-d", "/var/lib/mysql/mysql").returncode:
        done(rack, CONTROLLER, "install", "-d", "-o", "mysql", "-g", "mysql", "/var/lib/mysql")
        done(rack, CONTROLLER, "mariadb-install-db", "--user=mysql", "--skip-test-db", seconds=60)
        done(rack, CONTROLLER, "systemctl", "start", "mariadb", seconds=60)
        done(rack, CONTROLLER, "mariadb", "-e", DATABASE)
    done(rack, CONTROLLER, "systemctl", "start", "mariadb", "slurmdbd", seconds=60)
    _configure(rack, OFF, ON)
    until(lambda: inside(rack, CONTROLLER, "sacctmgr", "-n", "show", "cluster").returncode == 0, "slurmdbd does not answer")
    inside(rack, CONTROLLER, "sacctmgr", "-i", "add", "cluster", "lab")  # fails harmlessly if the cluster is already registered
    _restart(rack, ON)


def stop_accounting(rack: Rack) -> None:
    """Stop accounting and its daemons."""
    _configure(rack, ON, OFF)
    _restart(rack, OFF)
    done(rack, CONTROLLER, "systemctl", "stop", "slurmdbd", "mariadb", seconds=60)


def forget_jobs(rack: Rack) -> None:
    """Make the controller forget its jobs, as it does some minutes after they end (MinJobAge)."""
    done(rack, CONTROLLER, "systemctl", "stop", "slurmctld")
    done(rack, CONTROLLER, "sh", "-c", "rm -f /var/lib/slurm/slurmctld/job_state*")
    done(rack, CONTROLLER, "systemctl", "start", "slurmctld")
    slurm_ready(rack)


def _write(rack: Rack, path: str, text: str) -> None:
    done(rack, CONTROLLER, "sh", "-c", f"cat > {path}", stdin=text)


def _configure(rack: Rack, old: str, new: str) -> None:
    for node in NODES:
        if node.role is not Role.PLAIN:
            done(rack, node, "sed", "-i", f"s#{old}$#{new}#", SETTINGS)


def _restart(rack: Rack, storage: str) -> None:
    for node in NODES:
        if node.role is not Role.PLAIN:
            done(rack, node, "systemctl", "restart", "slurmctld" if node is CONTROLLER else "slurmd")
    until(lambda: _told(rack, storage), f"slurmctld does not run with {storage}")


def _told(rack: Rack, storage: str) -> bool:
    try:
        return storage in done(rack, CONTROLLER, "scontrol", "show", "config")
    except LabRefusal:
        return False
