"""Versions, libraries and checkpoints of the framework."""

import re
from dataclasses import replace

from deploy.sandbox.cluster.faults.context import FORWARD, FaultContext
from deploy.sandbox.cluster.faults.registry import register_fault
from deploy.sandbox.cluster.machines.training import NCCL_VERSION

CRASHES = (2, 27, 7)  # an NCCL version that crashes

_ARCH = {"Hopper": ("sm_90", "9.0"), "Ampere": ("sm_80", "8.0"), "Ada Lovelace": ("sm_89", "8.9")}


@register_fault("F01", "FRAMEWORK.VERSION.Torch_Arch_Missing", "PyTorch was not built for this GPU", "job", "never starts")
def torch_arch_missing(context: FaultContext) -> None:
    sm, capability = _ARCH[context.node.profile.architecture]
    for node in context.world.nodes.values():
        node.environment.image.archs = "sm_37 sm_50 sm_60 sm_70 sm_75"
    for rank in context.job.ranks:
        context.write_log(
            rank,
            f"UserWarning: {context.node.profile.product} with CUDA capability {sm} is not compatible with the current PyTorch installation.",
            f"The current PyTorch install supports CUDA capabilities sm_37 sm_50 sm_60 sm_70 sm_75. ({capability} is needed)",
            dt=5,
        )
        context.raise_cuda_error(rank, "no kernel image is available for execution on the device", 6)


@register_fault("F02", "FRAMEWORK.VERSION.NCCL_Mismatch_Across_Ranks", "Ranks with different NCCL versions", "job", "never starts")
def nccl_mismatch(context: FaultContext) -> None:
    old = str(context.args.get("version", "2.18.3"))
    major, minor, patch = (int(part) for part in [*re.findall(r"[0-9]+", old), "0", "0", "0"][:3])
    context.node.environment.image.nccl = (major, minor, patch)
    for rank in context.job.ranks:
        version = old if rank.node == context.node.name else NCCL_VERSION
        context.write_log(rank, f"NCCL version {version}+cuda12.{2 if version == old else 4}", dt=9)
    dead = context.job.of(context.node.name)
    for rank in dead:
        context.write_nccl_log(rank, "misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3", 10)
        context.raise_exception(
            rank,
            (
                "torch.distributed.DistBackendError: NCCL error in: "
                "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, invalid usage (run with NCCL_DEBUG=WARN for "
                f"details), NCCL version {old}\nncclInvalidUsage: This usually reflects invalid usage of NCCL library."
            ),
            (("/workspace/train.py", 274, "main", "dist.barrier()  # ncclCommInitRank"),),
            11,
        )
    context.time_out_peers(dead, op="BARRIER", seq=1)


@register_fault("F03", "FRAMEWORK.VERSION.cuDNN_Mismatch", "Another cuDNN is loaded than PyTorch was built for", "job", "never starts")
def cudnn_mismatch(context: FaultContext) -> None:
    for node in context.world.nodes.values():
        node.env["LD_LIBRARY_PATH"] = "/opt/cudnn-8.9/lib:/usr/local/cuda/lib64"
        node.environment.image.cudnn_error = (
            "error: cuDNN version incompatibility: PyTorch was compiled  against (9, 1, 0) but found runtime version (8, 9, 2)."
        )
    for rank in context.job.ranks:
        context.raise_exception(
            rank,
            (
                "RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (9, 1, 0) but found runtime "
                "version (8, 9, 2). PyTorch already comes bundled with cuDNN.\nRuntimeError: cuDNN error: "
                "CUDNN_STATUS_NOT_INITIALIZED"
            ),
            FORWARD,
            20,
        )


@register_fault("F04", "FRAMEWORK.NCCL.Library_Segfault", "NCCL crashes on several nodes", "job", "dies")
def nccl_segfault(context: FaultContext) -> None:
    dead = []
    for node in context.world.nodes.values():
        node.environment.image.nccl = CRASHES
    for rank in context.job.ranks:
        rank.lines = [replace(line, text=line.text.replace(NCCL_VERSION, ".".join(map(str, CRASHES)))) for line in rank.lines]
    hit = context.nodes if len(context.nodes) > 1 else list(context.world.nodes.values())[:3]
    for i, node in enumerate(hit):
        rank = context.job.of(node.name)[context.dice.randrange(8)]
        dead.append(rank)
        offset = context.dice.randrange(0x10000, 0xFFFFF)
        context.log_kernel(
            (
                f"pt_main_thread[{rank.pid}]: segfault at 7f3a1c{offset:06x} ip 00007f3c2a{offset:06x} sp 00007f3bd2fd7c30 "
                "error 4 in libnccl.so.2[7f3c2a000000+d3d3000]"
            ),
            0.4 * i,
            "info",
            node,
        )
        context.write_log(rank, f"Fatal Python error: Segmentation fault in thread of process {rank.pid}", dt=0.4 * i + 0.1)
    context.time_out_peers(dead)


@register_fault("F05", "FRAMEWORK.MODEL.Checkpoint_Incompatible", "Checkpoint does not fit the model", "job", "never starts")
def checkpoint_incompatible(context: FaultContext) -> None:
    frames = (
        ("/workspace/train.py", 276, "main", "model.load_state_dict(torch.load(args.resume)['model'])"),
        ("/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", 2215, "load_state_dict", "raise RuntimeError("),
    )
    for rank in context.job.ranks:
        context.raise_exception(
            rank,
            (
                "RuntimeError: Error(s) in loading state_dict for Transformer:\n\tsize mismatch for "
                "layers.0.attention.wq.weight: copying a param with shape torch.Size([8192, 8192]) from checkpoint, the "
                "shape in current model is torch.Size([5120, 5120])."
            ),
            frames,
            30,
        )


@register_fault("F06", "FRAMEWORK.LIB.Extension_ABI", "Extension built for another PyTorch", "job", "never starts")
def extension_abi(context: FaultContext) -> None:
    for node in context.world.nodes.values():
        node.environment.image.flash_attn = "2.6.3+cu122torch2.3"
    frames = (
        (
            "/opt/venv/lib/python3.11/site-packages/flash_attn/flash_attn_interface.py",
            10,
            "<module>",
            "import flash_attn_2_cuda as flash_attn_cuda",
        ),
    )
    for rank in context.job.ranks:
        context.raise_exception(
            rank,
            (
                "ImportError: /opt/venv/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: "
                "undefined symbol: _ZN3c104cuda9SetDeviceEab"
            ),
            frames,
            5,
        )
