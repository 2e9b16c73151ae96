"""Plain words for causes, checks and remedies. A test verifies that the ids exist."""

from collections.abc import Mapping
from typing import Final

# Label prefixes → words for them, separated by commas.
CAUSE_WORDS: Final[Mapping[str, str]] = {
    "GPU.MEMORY": (
        "ecc, memory error, memory errors, hbm, vram, row remap, row remapping, remap, bit flip, bit flips, dbe, double bit, sbe, gpu memory, "
        "dram, sram"
    ),
    "GPU.MEMORY.InfoROM_Corruption": "infrom, inforom",
    "GPU.MEMORY SYSTEM_SOFTWARE.MEMORY USER.CODE.Batch_Too_Large_OOM": "memory",
    "SYSTEM_SOFTWARE.MEMORY OTHER.HARDWARE.Machine_Check": "ram",
    "OTHER.HARDWARE.Machine_Check": "dimm, machine check, mce",
    "SYSTEM_SOFTWARE.MEMORY.Host_OOM_Kill USER.CODE.Batch_Too_Large_OOM": "oom, out of memory",
    "SYSTEM_SOFTWARE.MEMORY.Host_OOM_Kill": "oom killer, oom kill",
    "USER.CODE.Batch_Too_Large_OOM": "batch size, batch",
    "INTERCONNECT": "network, networking, interconnect, fabric, netwerk, netzwerk, reseau, red",
    "INTERCONNECT.IB INTERCONNECT.ROCE SYSTEM_SOFTWARE.RDMA": "rdma",
    "INTERCONNECT.IB": "cable, cables, cabling, kabel, kable, link, links, ib, infiniband, hca, mellanox, port, wire, fibre, fiber",
    "INTERCONNECT.IB INTERCONNECT.ETH": "nic",
    "INTERCONNECT.IB.Link_Flapping": "link flap, flapping",
    "INTERCONNECT.IB.Symbol_Errors": "symbol errors",
    "INTERCONNECT.IB.Transceiver_Overheat INTERCONNECT.IB.Symbol_Errors": "optic, optics, transceiver",
    "INTERCONNECT.IB.Subnet_Manager_Down": "subnet manager, opensm",
    "INTERCONNECT.IB.PKey_Mismatch": "pkey, partition key",
    "INTERCONNECT.IB.HCA_Firmware_Fatal": "hca firmware",
    "INTERCONNECT.ROCE": "roce, pfc, flow control",
    "INTERCONNECT.ETH": "ethernet",
    "INTERCONNECT.ETH.MTU_Mismatch": "mtu",
    "INTERCONNECT.ETH.DNS_Failure": "dns",
    "INTERCONNECT.ETH.Rendezvous_Port_Blocked": "firewall, master port",
    "INTERCONNECT.SWITCH": "switch, leaf, leaf switch, uplink, uplinks, spine",
    "INTERCONNECT.NVLINK": "nvlink, nvlinks",
    "INTERCONNECT.NVSWITCH": "nvswitch, sxid",
    "FRAMEWORK.NCCL FRAMEWORK.VERSION.NCCL_Mismatch_Across_Ranks USER.CONFIG.NCCL": "nccl",
    "FRAMEWORK.VERSION.NCCL_Mismatch_Across_Ranks": "nccl version",
    "FRAMEWORK": "framework, pytorch, torch, library, libraries",
    "FRAMEWORK.VERSION.cuDNN_Mismatch": "cudnn",
    "FRAMEWORK.MODEL.Checkpoint_Incompatible": "checkpoint, checkpoints",
    "FRAMEWORK.DATA.Dataloader_Worker_Leak": "dataloader, data loader",
    "SYSTEM_SOFTWARE.DRIVER": "driver, drivers, treiber, pilote, controlador",
    "SYSTEM_SOFTWARE.DRIVER.Module_Not_Loaded": "kernel module",
    "SYSTEM_SOFTWARE.CUDA": "cuda, cuda version",
    "SYSTEM_SOFTWARE": "software",
    "SYSTEM_SOFTWARE.FABRIC": "fabric manager, fabricmanager",
    "SYSTEM_SOFTWARE.CONTAINER": "container, containers, docker",
    "SYSTEM_SOFTWARE.CONTAINER SYSTEM_SOFTWARE.CUDA": "image",
    "SYSTEM_SOFTWARE.CONTAINER.Cgroup_Device_Loss": "cgroup",
    "SYSTEM_SOFTWARE.RDMA.Peermem_Not_Loaded": "peermem, gdr, gpudirect",
    "SYSTEM_SOFTWARE.LIMITS.Memlock_Too_Low": "memlock",
    "SYSTEM_SOFTWARE.LIMITS": "ulimit, limits",
    "SYSTEM_SOFTWARE.LIMITS.Open_Files_Low": "open files",
    "SYSTEM_SOFTWARE.STORAGE": "disk, disks, filesystem, file system, nvme, ssd, festplatte, disque, disco",
    "SYSTEM_SOFTWARE.STORAGE OTHER.SERVICE.Object_Storage_Throttled": "storage",
    "SYSTEM_SOFTWARE.STORAGE.Root_FS_Full": "disk full, full disk",
    "SYSTEM_SOFTWARE.STORAGE.NFS_Server_Not_Responding": "nfs, lustre, file server",
    "SYSTEM_SOFTWARE.STORAGE.Shm_Too_Small": "shm, shared memory",
    "OTHER.SERVICE.Object_Storage_Throttled": "s3",
    "SYSTEM_SOFTWARE.KERNEL": "kernel",
    "SYSTEM_SOFTWARE.KERNEL.Panic": "kernel panic, panic",
    "SYSTEM_SOFTWARE.KERNEL.Soft_Lockup": "soft lockup, lockup",
    "SYSTEM_SOFTWARE.PCIE.ACS_Enabled": "acs",
    "SYSTEM_SOFTWARE.TIME.Clock_Skew": "clock skew, clock, ntp, chrony, time sync",
    "GPU.CONFIG.Clocks_Locked_Low": "clocks, gpu clocks, locked clocks, application clocks",
    "SYSTEM_SOFTWARE.PROCESS.Orphan_GPU_Process": "zombie, zombie process, leftover process, orphan",
    "SYSTEM_SOFTWARE.CPU.Governor_Powersave": "governor, powersave",
    "SYSTEM_SOFTWARE.CPU SYSTEM_SOFTWARE.KERNEL.Soft_Lockup OTHER.HARDWARE.Machine_Check": "cpu",
    "GPU": "gpu, gpus, graphics card",
    "GPU OTHER.HARDWARE": "hardware",
    "GPU.BUS": "bus, riser",
    "GPU.BUS SYSTEM_SOFTWARE.PCIE": "pcie, pci",
    "GPU.BUS.Fallen_Off_Bus": "fallen off, fell off, off the bus",
    "GPU.EXECUTION.GSP_RPC_Timeout": "gsp",
    "GPU.EXECUTION.Silent_Data_Corruption": "sdc, silent data corruption, silent corruption",
    "GPU.THERMAL OTHER.INFRA.Rack_Cooling OTHER.HARDWARE.Fan_Failure INTERCONNECT.IB.Transceiver_Overheat": "thermal",
    "GPU.THERMAL OTHER.INFRA.Rack_Cooling OTHER.HARDWARE.Fan_Failure": "thermals, heat, temperature, overheating, overheat, hitze",
    "OTHER.INFRA.Rack_Cooling OTHER.HARDWARE.Fan_Failure GPU.THERMAL": "cooling",
    "OTHER.HARDWARE.Fan_Failure": "fan, fans",
    "GPU.POWER GPU.CONFIG.Power_Cap_Low": "power",
    "GPU.POWER.Power_Brake_PSU": "psu, power brake",
    "GPU.POWER": "power supply",
    "GPU.CONFIG.Power_Cap_Low": "power cap, power limit",
    "GPU.CONFIG.MIG_Left_Enabled": "mig",
    "GPU.CONFIG.Compute_Mode_Restricted": "compute mode",
    "USER": "code, user code, our code, my code, training code, training script, script, user",
    "USER.CODE.Loss_NaN_Hyperparameter": "hyperparameter, hyperparameters, learning rate, nan, loss",
    "USER.CONFIG": "config, configuration, env vars, environment variables",
    "USER.CONFIG.World_Size_Mismatch": "world size",
    "USER.CONFIG.CUDA_VISIBLE_DEVICES_Wrong": "visible devices",
    "USER.DATA.File_Or_Permission": "permissions, dataset",
    "USER.CODE.Collective_Desync": "collective, desync",
    "OTHER.SCHED.Preemption": "preemption, preempted",
    "OTHER.SCHED": "scheduler, slurm",
    "OTHER.SCHED.Planned_Maintenance": "maintenance",
    "OTHER.INFRA.Rack_Cooling": "rack",
    "OTHER.INFRA.Node_Unreachable": "unreachable",
}
# Check → words for it, besides its id.
CHECK_WORDS: Final[Mapping[str, str]] = {
    "smi": (
        "nvidia smi, nvidia-smi, nvidiasmi, smi output, temps, temperatures, temperature, gpu temps, clocks, ecc counters, ecc counts, gpu "
        "state, gpu list, power draw"
    ),
    "topo": "topology, topo -m",
    "nvlink": "nvlink status, nvlinks, nvlink errors, nvlink counters",
    "dmesg": (
        "kernel log, kernel logs, kernel messages, kernel ring buffer, kern log, kernlog, xids, xid errors, syslog, journal, kernel output, "
        "kernel journal"
    ),
    "lspci": "pci devices, pcie devices, pcie link, pci list, pcie tree",
    "ibstat": (
        "ib status, ib state, ibstatus, link state, port state, ib ports, ib port, ib counters, infiniband status, infiniband state, port "
        "status"
    ),
    "sysd": "services, systemd, systemctl, service status",
    "mods": "lsmod, kernel modules, modules, loaded modules",
    "disk": "df, disk usage, disk space, free space, mounts",
    "mem": "mem, memory usage, free memory, ram usage",
    "env": "env, environment, env vars, environment variables",
    "joblog": "job log, job logs, job output, training log, training logs, rank logs, stdout of the job, slurm log, slurm output, nccl log, nccl logs",
    "procs": "processes, process list, ps, gpu processes",
    "docker": "container status, containers, docker ps",
    "time": "chronyc, clock offset, ntp status, time sync, clock skew",
    "sched": "sinfo, squeue, scontrol, slurm state, slurm status, node state in slurm, scheduler state",
    "cpu": "lscpu, cpu governor, cpu state",
    "net": "ip addr, ifconfig, interfaces, network interfaces, ethtool",
    "store": "nfs mounts, object storage",
    "base": "baseline, difference to its peers",
    "ipmi": "ipmitool, bmc, bmc log, sel, sensors, fan speeds, fan speed, ipmi sensors, sensor readings",
    "vers": "versions, driver version, driver versions, software versions, cuda version, firmware versions",
    "fabric": "fabric manager log, switch counters, leaf counters, ibnetdiscover",
    "cuda": "cuda test, cuda check, cuda sanity, cuda init, vector add",
    "dcgm1": "dcgm, dcgm diag, dcgmi, dcgmi diag, dcgm level 1, dcgm -r 1, dcgm r1, quick diag",
    "dcgm2": "dcgm level 2, dcgm long, long diag, dcgm r2, dcgm medium, dcgm level 3",
    "bw": "bandwidth test, bandwidthtest, pcie bandwidth, memory bandwidth, bandwidth, nvbandwidth",
    "p2p": "p2p test, peer to peer, peer to peer test, p2p bandwidth",
    "nccl1": (
        "run nccl, do nccl, start nccl, try nccl, nccl run, nccl test, nccl tests, nccl-test, nccl-tests, all reduce test, allreduce, all "
        "reduce, allreduce test, all_reduce_perf, nccl benchmark"
    ),
    "nccl2": (
        "multi node nccl, multinode nccl, nccl across nodes, nccl between, cross node nccl, two node nccl, pairwise nccl, nccl test between, "
        "nccl test across"
    ),
    "gemm": (
        "gemm test, matmul, matmul test, matrix multiplication, gpu burn, gpu-burn, gpuburn, burn in, burn-in, compute test, flops test, stress "
        "test"
    ),
    "ibbw": "ib bandwidth, ib_write_bw, ib write bw, ib bandwidth test, perftest, rdma bandwidth, rdma test, ib test",
    "sdc": "sdc test, silent data corruption test",
    "e2e": "end to end, end to end test, mini training, training smoke test, smoke test",
}
# Remedy → words for it, besides its id.
REMEDY_WORDS: Final[Mapping[str, str]] = {
    "drain_node": (
        "drain, drained, cordon, cordoned, take out of service, out of rotation, out of service, out of the pool, out of the queue, isolate, quarantine, drainen, "
        "drenar, drena, drainer, vider"
    ),
    "resume_node": (
        "undrain, uncordon, resume, put back, put it back, back into service, back in service, back to service, back into rotation, back in "
        "rotation, return to service, into service, back in the pool, back into the pool, back into production"
    ),
    "cancel_job": (
        "cancel the job, cancel job, kill the job, kill job, kill off the job, kill off job, scancel, abort the job, cancel my job, cancel our job, stop the job, kill the "
        "training, terminate the job, cancel the run, kill the run, stop job, cancel the training, kill my job, kill our job"
    ),
    "evict_pods": "evict the pods, evict pods, evict its pods, evict all pods, kubectl drain",
    "reset_clocks": "reset the clocks, reset clocks, unlock the clocks, unlock clocks, clock reset, reset gpu clocks, reset the gpu clocks",
    "power_limit_default": "power limit, reset the power limit, default power limit, raise the power cap, power cap",
    "compute_mode_default": "compute mode",
    "persistence_on": "persistence mode, persistence, enable persistence",
    "kill_gpu_process": (
        "kill the process, kill process, kill the zombie, kill that process, kill the orphan, kill the leftover, kill the left over, kill the "
        "stale process, kill the gpu process, kill pid, kill the orphaned process, kill the zombie process"
    ),
    "mig_off": "turn off mig, disable mig, mig off, switch off mig, turn mig off, switch mig off",
    "gpu_reset": (
        "reset the gpu, reset gpu, gpu reset, reset the card, reset that gpu, reset this gpu, gpu-reset, reset, reset it, zurucksetzen, "
        "resetten"
    ),
    "modprobe_peermem": "load peermem, load nvidia peermem, modprobe, load nvidia-peermem",
    "governor_performance": "performance governor, governor",
    "chrony_makestep": "step the clock, sync the clock, fix the clock, resync time, sync time, makestep, correct the clock, sync the time",
    "configure_runtime": "configure the runtime, configure runtime, container runtime",
    "restart_container": "restart the container, restart container, bounce the container",
    "cleanup": (
        "clean up, cleanup, free disk space, free up space, free some space, clear the disk, clean the disk, delete old files, free up disk "
        "space, free up disk, free space"
    ),
    "restart_service": "restart the service, restart service",
    "restart_fabricmanager": "restart the fabric manager, restart fabricmanager, restart fabric manager, restart nvidia fabricmanager, bounce fabricmanager",
    "dkms_rebuild": "rebuild the driver, rebuild dkms, dkms rebuild, dkms, rebuild the module",
    "reload_driver": "reload the driver, reload driver, driver reload, restart the driver, reload the nvidia driver, reload the drivers, reload nvidia",
    "reboot": (
        "reboot, rebooted, restart the node, restart node, restart the host, restart the machine, bounce the node, restart the server, restart the box, "
        "bounce, neustarten, neu starten, redemarrer, redemarre, reiniciar, reinicia"
    ),
    "power_cycle": (
        "power cycle, powercycle, power-cycle, hard reset, cold boot, hard reboot, pull the plug, cold reboot, turn it off and on, power off "
        "and on"
    ),
}
# The same in German, French, Spanish and Chinese.
CAUSE_WORDS_ABROAD: Final[Mapping[str, str]] = {
    "INTERCONNECT": "le reseau, la red, das netz, 网络",
    "INTERCONNECT.IB": "cable, cables, cable reseau, 线缆, 网线, 光纤, 光模块, netzwerkkabel",
    "SYSTEM_SOFTWARE.DRIVER": "pilotes, controlador, drivers, 驱动, 驱动程序",
    "SYSTEM_SOFTWARE.STORAGE": "festplatten, platte, disco duro, 磁盘, 硬盘, 存储",
    "GPU.POWER": "netzteil, stromversorgung, alimentation, fuente de alimentacion, fuente, 电源",
    "GPU.THERMAL OTHER.INFRA.Rack_Cooling OTHER.HARDWARE.Fan_Failure": (
        "uberhitzung, warme, temperatur, surchauffe, chaleur, sobrecalentamiento, calor, 过热, 温度"
    ),
    "INTERCONNECT.SWITCH": "commutateur, conmutador, 交换机",
    "GPU.MEMORY SYSTEM_SOFTWARE.MEMORY USER.CODE.Batch_Too_Large_OOM": "speicher, memoire, memoria, 内存, 显存",
    "USER.CODE USER": "unser code, notre code, nuestro codigo, 代码",
    "OTHER.HARDWARE.Fan_Failure": "lufter, ventilateur, ventilador, 风扇",
}
REMEDY_WORDS_ABROAD: Final[Mapping[str, str]] = {
    "reboot": (
        "neustart, neu gestartet, neu starten, starte neu, neu booten, boote neu, reboote, rebooten, relance, relancer, rebota, "
        "reinicio, reinicien, reiniciad, 重新启动, 重开机, redemarrage, redemarrer, redemarre, redemarrez, reinicie, reiniciar, "
        "reinicia, 重启"
    ),
    "drain_node": (
        "drainen, drainiere, raus, rausnehmen, aus der rotation, leere, leeren, vide, vider, retire, retirer, retira, retirar, "
        "vacia, vaciar, saca, sacar, 移出, 踢出, 摘掉, 摘除, drainiere, entleeren, aus dem betrieb, aus dem pool, isolieren, hors "
        "service, du pool, isole, isoler, draine, drainer, drena, drenar, aisla, aislar, de servicio, 排空, 下线, 隔离"
    ),
    "gpu_reset": "zurucksetzen, resette, resetee, resetea, resetear, reinicializa, reinitialise, reinitialiser, restablece, restablecer, 重置, 复位",
    "cancel_job": (
        "job abbrechen, brich den job ab, brich job, job killen, arrete le job, arreter le job, tuer le job, mata el job, cancela "
        "el job, 终止任务, 终止作业, 杀掉作业, annule le job, tue le job, cancela el trabajo, mata el trabajo, 取消作业, 杀掉任务, 取消任务"
    ),
    "reload_driver": "treiber neu, treiber neu laden, lade den treiber, recharge le pilote, recarga el controlador, 重新加载驱动",
    "power_cycle": "stromlos, eteins et rallume, apaga y enciende, 断电重启",
    "resume_node": (
        "wieder in betrieb, wieder in den pool, wieder frei, en service, dans le pool, en servicio, al servicio, al pool, 重新上线, "
        "恢复上线, 取消排空"
    ),
}
CHECK_WORDS_ABROAD: Final[Mapping[str, str]] = {
    "dmesg": "kernellog, kernel log, journal du noyau, log del kernel, 内核日志",
    "smi": "temperaturen, temperatures, temperaturas",
}
