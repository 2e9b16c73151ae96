"""Which labels of an alert mean what. Pure."""

from kb.schema import StrictModel


class AlertLabels(StrictModel):
    """Names of labels, the first that an alert has counts: as node_exporter, dcgm-exporter and kube-state-metrics have them."""

    host: tuple[str, ...] = ("Hostname", "node", "nodename", "kubernetes_node", "hostname", "host", "instance")
    device: tuple[str, ...] = ("gpu", "UUID", "device")
    xid: tuple[str, ...] = ("xid", "err_code", "DCGM_FI_DEV_XID_ERRORS")
    cause: tuple[str, ...] = ("switch", "leaf", "rack")
