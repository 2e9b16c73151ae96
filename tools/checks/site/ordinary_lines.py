"""Ordinary lines of jobs and kernels, which no site rule may match."""

from kb.needle_search import split_lines

ORDINARY_LINES = tuple(
    split_lines("""\
[rank0]: step 1200 loss 2.3145 grad_norm 0.87 lr 3.0e-04 tokens/s 41230
rank 7: epoch 3 iteration 4410/9000 loss=1.994 elapsed time per iteration (ms): 812.4
2026-05-20 03:10:00,123 INFO trainer: step=100 loss=2.31 time=0.81s
2026-05-20 03:10:01,456 WARNING dataloader: worker 3 is slower than the others
INFO:root:Loading checkpoint from /shared/checkpoints/step_1000
Saving checkpoint at iteration 2000 to /shared/checkpoints
Successfully saved checkpoint in 12.3 s
Epoch 4:  37%|###7      | 370/1000 [04:12<07:09,  1.47it/s, loss=2.1]
n1:4711:4800 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
n1:4711:4800 [0] NCCL INFO Channel 00/16 :    0   1   2   3   4   5   6   7
n1:4711:4800 [0] NCCL INFO comm 0x55d0 rank 0 nranks 16 cudaDev 0 busId 19000 - Init COMPLETE
NCCL version 2.21.5+cuda12.4
torchrun --nnodes 2 --nproc-per-node 8 train.py --config config.yaml
W0520 03:10:00.000000 4711 torch/distributed/run.py:779] Setting OMP_NUM_THREADS environment variable for each process to be 1
/usr/lib/python3.11/site-packages/torch/utils/data.py:12: UserWarning: This argument is deprecated
wandb: Run data is saved locally in /home/user/run-1
slurmstepd: info: task 3 started on node gpu-017
srun: job 4711 queued and waiting for resources
srun: job 4711 has been allocated resources
Traceback (most recent call last):
  File "/app/train.py", line 120, in main
    trainer.fit(model)
Evaluating: accuracy 0.712, error rate 0.288
validation loss at iteration 500 | lm loss value: 2.1 | lm loss PPL: 8.1
DeepSpeed info: version=0.14.2, git-hash=unknown, git-branch=unknown
[2026-05-20 03:10:02,001] [INFO] [config.py:996:print] zero_enabled .... True
Retrying request 1 of 5 after 0.5 seconds
Finished training: 0 errors, 3 warnings
Process 4711 exited with code 0
[    0.000000] Linux version 6.5.0-41-generic (buildd@lcy02) (gcc 12.3.0)
[    1.204511] pci 0000:19:00.0: BAR 0: assigned [mem 0x20000000-0x20ffffff]
[    4.120033] nvidia-nvlink: Nvlink Core is being initialized, major device number 510
[    4.501120] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15
[   12.500001] mlx5_core 0000:5e:00.0: firmware version: 28.39.1002
[   14.200310] mlx5_core 0000:5e:00.0 ens1np0: Link up
[   20.001201] EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode
[   21.330001] systemd[1]: Started Journal Service.
[   30.120000] IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready
[ 4210.000120] perf: interrupt took too long (2501 > 2500), lowering kernel.perf_event_max_sample_rate
[ 4300.120003] docker0: port 1(veth12ab) entered blocking state
[ 4300.120010] audit: type=1400 audit(1716174600.100:52): apparmor="STATUS" operation="profile_load"
[ 5000.000001] usb 1-1: new high-speed USB device number 4 using xhci_hcd
""")
)  # fmt: skip
