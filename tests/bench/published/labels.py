"""Map the published incidents' names to labels. Categories always map; a subcategory only if the taxonomy has exactly
that cause, else the incident counts on level 1 only. Where the taxonomies disagree on the category (a wrong
NCCL_SOCKET_IFNAME is networking there, user settings here), the leaf decides.
"""

from collections.abc import Mapping

CATEGORIES: Mapping[str, str] = {
    "gpu": "GPU",
    "system_software": "SYSTEM_SOFTWARE",
    "interconnect_networking": "INTERCONNECT",
    "framework_library": "FRAMEWORK",
    "user_application": "USER",
    "other": "OTHER",
}

LEAVES: Mapping[str, str] = {
    "torch_build_lacks_arch": "FRAMEWORK.VERSION.Torch_Arch_Missing",
    "cuda_toolkit_torch_mismatch": "FRAMEWORK.LIB.Extension_ABI",
    "ecc_uncorrectable_hardware": "GPU.MEMORY.Uncontained_ECC",
    "gpu_fallen_off_bus_power": "GPU.BUS.Fallen_Off_Bus",
    "missing_gpu": "GPU.BUS.Not_Enumerated",
    "gsp_firmware_bug": "GPU.EXECUTION.GSP_RPC_Timeout",
    "overheating_clock_reduction": "GPU.THERMAL.HW_Thermal_Slowdown",
    "overheating_passive_card": "GPU.THERMAL.HW_Thermal_Slowdown",
    "nvlink_fabric_fault": "INTERCONNECT.NVSWITCH.Fatal_SXid",
    "firewall_blocks_nccl": "INTERCONNECT.ETH.Rendezvous_Port_Blocked",
    "ib_link_flapping": "INTERCONNECT.IB.Link_Flapping",
    "mtu_mismatch": "INTERCONNECT.ETH.MTU_Mismatch",
    "nccl_socket_ifname_wrong": "USER.CONFIG.NCCL_SOCKET_IFNAME_Wrong",
    "nvidia_peermem_not_loaded": "SYSTEM_SOFTWARE.RDMA.Peermem_Not_Loaded",
    "pcie_acs_breaks_gdr": "SYSTEM_SOFTWARE.PCIE.ACS_Enabled",
    "pcie_acs_breaks_p2p": "SYSTEM_SOFTWARE.PCIE.ACS_Enabled",
    "iommu_breaks_p2p": "SYSTEM_SOFTWARE.PCIE.IOMMU_Breaks_P2P",
    "roce_wrong_gid_index": "USER.CONFIG.NCCL_IB_GID_INDEX_Wrong",
    "container_toolkit_missing": "SYSTEM_SOFTWARE.CONTAINER.NVIDIA_Runtime_Missing",
    "dev_shm_too_small": "SYSTEM_SOFTWARE.STORAGE.Shm_Too_Small",
    "disk_full": "SYSTEM_SOFTWARE.STORAGE.Root_FS_Full",
    "driver_library_version_mismatch": "SYSTEM_SOFTWARE.DRIVER.Driver_Library_Mismatch",
    "fabric_manager_not_running": "SYSTEM_SOFTWARE.FABRIC.FabricManager_Down",
    "fabric_manager_unhealthy": "SYSTEM_SOFTWARE.FABRIC.FabricManager_Down",
    "fabric_manager_version_mismatch": "SYSTEM_SOFTWARE.FABRIC.FabricManager_Version_Mismatch",
    "memlock_ulimit_too_low": "SYSTEM_SOFTWARE.LIMITS.Memlock_Too_Low",
    "nofile_ulimit_too_low": "SYSTEM_SOFTWARE.LIMITS.Open_Files_Low",
    "nouveau_loaded": "SYSTEM_SOFTWARE.DRIVER.Nouveau_Holds_GPUs",
    "selinux_blocks_module_load": "SYSTEM_SOFTWARE.DRIVER.Secure_Boot_Refuses_Module",
    "collective_desync_uneven_inputs": "USER.CODE.Collective_Desync",
    "collective_on_main_process_only": "USER.CODE.Collective_Desync",
    "cuda_oom_in_nccl_alloc": "USER.CODE.Batch_Too_Large_OOM",
    "leftover_process_holds_gpu": "SYSTEM_SOFTWARE.PROCESS.Orphan_GPU_Process",
    "more_ranks_than_gpus": "USER.CONFIG.CUDA_VISIBLE_DEVICES_Wrong",
    "ranks_share_one_gpu": "USER.CONFIG.CUDA_VISIBLE_DEVICES_Wrong",
    "slurm_gpu_binding_hides_gpus": "USER.CONFIG.CUDA_VISIBLE_DEVICES_Wrong",
    "slurm_memory_limit": "USER.CONFIG.Memory_Request_Low",
    "token_id_out_of_range": "USER.CODE.Device_Assert",
    "nic_forced_relaxed_ordering": "INTERCONNECT.IB.Relaxed_Ordering_Forced",
    "gpu_hardware_fault": "GPU.EXECUTION.Hardware_Fault",
    "missing_python_headers": "FRAMEWORK.LIB.Headers_Missing",
    "persistence_mode_off": "SYSTEM_SOFTWARE.DRIVER.Persistence_Mode_Off",
    "fabric_manager_restarted_without_gpu_reset": "SYSTEM_SOFTWARE.FABRIC.FabricManager_Restarted_Under_Load",
    "nccl_proxy_bug": "FRAMEWORK.NCCL.Known_Bug",
    "nccl_hardcoded_4k_mtu": "FRAMEWORK.NCCL.Known_Bug",
    "openmpi_ofi_creates_context_on_gpu0": "FRAMEWORK.LIB.MPI_Context_On_GPU0",
    "gloo_binds_loopback": "INTERCONNECT.ETH.Hostname_Resolves_To_Loopback",
    "test_program_limitation_no_fault": "USER.CONFIG.Test_Beyond_Its_Limits",
    "ib_nics_not_on_same_fabric": "INTERCONNECT.IB.Wrong_Cabling",
    "no_ip_interface": "INTERCONNECT.ETH.No_IP_Interface",
    "pcie_topology_misdetected": "FRAMEWORK.NCCL.Topology_Misdetected",
    "bios_rebar_above4g_disabled": "SYSTEM_SOFTWARE.PCIE.BAR_Space_Missing",
    "fabric_routing_collision": "INTERCONNECT.IB.Routing_Collision",
    "ld_library_path_shadows_wheels": "FRAMEWORK.LIB.Library_Path_Shadows_Wheels",
    "heterogeneous_hca_set": "INTERCONNECT.IB.Unequal_Adapters",
    "nccl_library_conflict": "FRAMEWORK.NCCL.Library_Conflict",
    "vllm_custom_allreduce_corruption": "FRAMEWORK.LIB.vLLM_Custom_Allreduce",
}


def expected(category: str, subcategory: str) -> tuple[str, str]:
    """Return category and leaf, "" for no leaf."""
    return CATEGORIES[category], LEAVES.get(subcategory, "")
