"""The training loop of an exported script: what a fit does, written out for the options of one cell. Pure.

Runs in the kernel. Owns the text; `train` owns what it has to agree with.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from gpulayer_nb.records.fit_names import FitNames
from gpulayer_nb.records.fit_options import FitOptions

_DTYPES = {"bf16-mixed": "torch.bfloat16", "16-mixed": "torch.float16"}

PROCESS_GROUP = """\
# Who this process is: torchrun says so.
rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
local_rank, node_rank = int(os.environ["LOCAL_RANK"]), int(os.environ["GROUP_RANK"])
use_gpu = {use_gpu}
device = torch.device("cuda", local_rank) if use_gpu else torch.device("cpu")
if use_gpu:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if use_gpu else "gloo")
"""

RESTORED = '''\
def restored(kind, attributes):
    """An object of this class with these attributes, as it was in the notebook."""
    made = kind.__new__(kind)
    made.__dict__.update(attributes)
    return made
'''

_HELPERS = '''\
def own_part(loader, sampler):
    """The same loader, for this rank's part of the data."""
    return DataLoader(
        loader.dataset, batch_size=loader.batch_size, sampler=sampler, num_workers=loader.num_workers,
        collate_fn=loader.collate_fn, pin_memory=loader.pin_memory, drop_last=loader.drop_last,
        worker_init_fn=loader.worker_init_fn, persistent_workers=loader.persistent_workers,
    )


def is_divisible(loader):
    """Whether a loader takes its samples in order or shuffled, so that a DistributedSampler may take its sampler's place."""
    return type(loader.sampler) in (SequentialSampler, RandomSampler) and not getattr(loader.sampler, "replacement", False)


def seed_epoch(base, epoch):
    """Other random numbers on every rank and in every epoch (dropout, augmentation), the same in every run."""
    digest = hashlib.blake2b(repr((base, epoch, rank)).encode(), digest_size=8).digest()
    torch.manual_seed(int.from_bytes(digest, "big") >> 1)


def to_device(part):
    if isinstance(part, (list, tuple)):
        return type(part)(to_device(each) for each in part)
    return part.to(device)


def samples_in(inputs):
    return samples_in(inputs[0]) if isinstance(inputs, (list, tuple)) else len(inputs)


def add_up(sums, values, samples):
    """Adds a batch's means, weighted by its samples; on the device, so that nothing waits for it."""
    for name, value in values.items():
        sums[name] = sums.get(name, 0.0) + torch.as_tensor(value, dtype=torch.float64) * samples


def mean_over_ranks(sums, samples):
    """Means over all samples of all ranks, from each rank's sums and its number of samples."""
    packed = torch.stack([torch.as_tensor(part, dtype=torch.float64, device=device) for part in (*sums.values(), samples)])
    dist.all_reduce(packed)
    return {name: (packed[at] / packed[-1]).item() for at, name in enumerate(sums)}
'''

_VALIDATION = """
    {model}.eval()
    val_sums, val_samples = {{}}, 0
    with torch.no_grad():
        for inputs, target in to_each_rank:
            inputs, target = to_device(inputs), to_device(target)
            pred = {model}(inputs)
            values = {{"val_loss": {loss_fn}(pred, target){val_metrics}}}
            add_up(val_sums, values, samples_in(inputs))
            val_samples += samples_in(inputs)
    val_sums = {{**dict.fromkeys(val_names, 0.0), **val_sums}}  # a rank without samples takes part too
    means.update(mean_over_ranks(val_sums, val_samples))
    {model}.train()
"""


# Names of ours that a notebook may have too; ours give way.
_OWN_NAMES = (
    "own_part", "is_divisible", "seed_epoch", "to_device", "samples_in", "add_up", "mean_over_ranks", "run_epochs",
)  # fmt: skip


def training(names: FitNames, options: FitOptions, parts: Collection[str], taken: Collection[str]) -> str:
    """The text after the cell: helpers, sampler, DDP, the loop. All its variables are a function's own.

    Args:
        parts: those of `names.optional` that the fit has.
        taken: names that the script has already.
    """
    has_val, has_metrics, has_scheduler = (name in parts for name in (names.val_loader, names.metrics, names.scheduler))
    body = [
        *_division(names, options, has_val, has_scheduler),
        *_wrapping(names, options, has_metrics, has_val),
        *_loop(names, options, has_metrics),
        *(_validation(names, options, has_metrics) if has_val else []),
        *(_schedule(names, by_step=False) if has_scheduler else []),
        "    if rank == 0:",
        '        shown = "  ".join(f"{name} {value:.8g}" for name, value in means.items())',
        '        print(f"epoch {epoch + 1}: {shown}", flush=True)',
        *([f"    if step == {options.max_steps}:", "        break"] if options.max_steps is not None else []),
    ]
    text = "\n".join(
        [
            _HELPERS,
            "",
            "def run_epochs():",
            *(f"    {line}".rstrip() for line in body),
            "",
            "",
            *_placed(names, options),
            "run_epochs()",
            "if rank == 0:",
            f'    torch.save({names.model}.state_dict(), Path(__file__).with_suffix(".weights.pt"))',
            "dist.destroy_process_group()",
            "",
        ]
    )
    steps = "\n".join(f"    {line}" for line in _schedule(names, by_step=True)) + "\n" if has_scheduler else ""
    text = text.replace("    # STEP SCHEDULE\n", steps)
    for name in _OWN_NAMES:
        if name in taken:
            text = re.sub(rf"(?<![\w.]){name}(?=\()", f"{name}_of_ours", text)
    return text


def _placed(names: FitNames, options: FitOptions) -> list[str]:
    lines = [f"{names.model}.to(device)"]
    if options.sync_batchnorm:
        lines.append(f"{names.model} = torch.nn.SyncBatchNorm.convert_sync_batchnorm({names.model})")
    return lines


def _division(names: FitNames, options: FitOptions, has_val: bool, has_scheduler: bool) -> list[str]:
    seed = str(options.seed) if options.seed is not None else "order_seed"
    loader = names.train_loader
    lines = ["# Each rank reads its own part of the data, in another order each epoch."]
    if options.seed is None:
        lines += [
            "order_seed = torch.initial_seed() if torch.initial_seed() < 2**32 else 0  # that of torch.manual_seed above, else 0",
            f"if {loader}.generator is not None:",
            f"    order_seed = {loader}.generator.initial_seed()",
            "drawn = torch.empty((), dtype=torch.int64).random_().to(device)",
            "dist.broadcast(drawn, 0)  # the ranks' random numbers follow rank 0's",
            "base_seed = int(drawn)",
        ]
    else:
        lines += [f"base_seed = {options.seed}"]
    for name in (loader, names.val_loader) if has_val else (loader,):
        lines.append(f'assert is_divisible({name}), "{name} has a sampler of its own: divide it among the ranks by hand"')
    if has_scheduler:
        lines.append(f'assert not isinstance({names.scheduler}, dict), "write the steps of {names.scheduler} by hand"')
    lines += [
        "sampler = DistributedSampler(",
        f"    {loader}.dataset, shuffle=type({loader}.sampler) is RandomSampler, seed={seed}, drop_last={loader}.drop_last",
        ")",
        f"own_batches = own_part({loader}, sampler)",
    ]
    if has_val:
        lines += [
            "# each sample once, none twice",
            f"to_each_rank = own_part({names.val_loader}, range(rank, len({names.val_loader}.dataset), world_size))",
        ]
    return [*lines, ""]


def _wrapping(names: FitNames, options: FitOptions, has_metrics: bool, has_val: bool) -> list[str]:
    model = names.model
    lines = ["# Copies of one model, gradients averaged after each backward pass.", f"{model}.train()"]
    unused = ", find_unused_parameters=True" if options.find_unused_parameters else ""
    lines.append(f"ddp = DistributedDataParallel({model}{unused}, gradient_as_bucket_view=True)")
    if options.precision == "16-mixed":
        lines.append("scaler = torch.amp.GradScaler(device.type)")
    if has_val:
        extra = f', *(f"val_{{name}}" for name in {names.metrics})' if has_metrics else ""
        lines.append(f'val_names = ("val_loss"{extra})' if extra else 'val_names = ("val_loss",)')
    return [*lines, "step = 0", ""]


def _loop(names: FitNames, options: FitOptions, has_metrics: bool) -> list[str]:
    epochs = f"range({options.max_epochs})" if options.max_epochs is not None else "itertools.count()"
    lines = [
        f"for epoch in {epochs}:",
        "    sampler.set_epoch(epoch)",
        "    seed_epoch(base_seed, epoch)",
        "    sums, samples = {}, 0",
    ]
    if options.accumulate_grad_batches == 1:
        lines += ["    for inputs, target in own_batches:", f"        {names.optimizer}.zero_grad()"]
        lines += _batch(names, options, has_metrics, " " * 8)
    else:
        lines += [
            "    batches = iter(own_batches)",
            f"    while group := list(itertools.islice(batches, {options.accumulate_grad_batches})):  # of one step",
            f"        {names.optimizer}.zero_grad()",
            "        for at, (inputs, target) in enumerate(group):",
            "            with ddp.no_sync() if at + 1 < len(group) else contextlib.nullcontext():",
            *_batch(names, options, has_metrics, " " * 16),
        ]
    lines += [*_update(names, options), "        step += 1", "# STEP SCHEDULE"]
    if options.max_steps is not None:
        lines += [f"        if step == {options.max_steps}:", "            break"]
    return [
        *lines,
        f"    for buffer in {names.model}.buffers():  # of batch norm, for example: those of rank 0 count",
        "        dist.broadcast(buffer, 0)",
        "    means = mean_over_ranks(sums, samples)",
    ]


def _batch(names: FitNames, options: FitOptions, has_metrics: bool, indent: str) -> list[str]:
    """Forward and backward of one batch, and what is kept of it for the means."""
    autocast, share = _autocast(options), "loss"
    forward = ["pred = ddp(inputs)", f"loss = {names.loss_fn}(pred, target)"]
    if autocast:
        forward = [f"with {autocast}:", *(f"    {line}" for line in forward)]
    if options.accumulate_grad_batches > 1:
        share = "(loss / len(group))"
    metrics = f", **{{name: metric(pred, target) for name, metric in {names.metrics}.items()}}" if has_metrics else ""
    lines = [
        "inputs, target = to_device(inputs), to_device(target)",
        *forward,
        f"scaler.scale({share}).backward()" if options.precision == "16-mixed" else f"{share}.backward()",
        "with torch.no_grad():",
        f'    add_up(sums, {{"loss": loss{metrics}}}, samples_in(inputs))',
        "samples += samples_in(inputs)",
    ]
    return [indent + line for line in lines]


def _update(names: FitNames, options: FitOptions) -> list[str]:
    scaled, optimizer = options.precision == "16-mixed", names.optimizer
    lines = []
    if options.gradient_clip_val is not None:
        if scaled:
            lines.append(f"        scaler.unscale_({optimizer})")
        lines.append(f"        torch.nn.utils.clip_grad_norm_({names.model}.parameters(), {options.gradient_clip_val})")
    return [
        *lines,
        *([f"        scaler.step({optimizer})", "        scaler.update()"] if scaled else [f"        {optimizer}.step()"]),
    ]


def _validation(names: FitNames, options: FitOptions, has_metrics: bool) -> list[str]:
    metrics = f', **{{f"val_{{name}}": metric(pred, target) for name, metric in {names.metrics}.items()}}' if has_metrics else ""
    autocast = _autocast(options)
    text = _VALIDATION.format(model=names.model, loss_fn=names.loss_fn, val_metrics=metrics)
    if autocast:
        text = text.replace("with torch.no_grad():", f"with torch.no_grad(), {autocast}:", 1)
    return text.strip("\n").split("\n")


def _schedule(names: FitNames, *, by_step: bool) -> list[str]:
    """torch's documentation has two schedules that step after every batch; the others step after every epoch."""
    scheduler = names.scheduler
    if by_step:
        return [
            f'        if type({scheduler}).__name__ in ("OneCycleLR", "CyclicLR"):',
            f"            {scheduler}.step()",
        ]
    return [
        f'    if type({scheduler}).__name__ == "ReduceLROnPlateau":',
        f'        {scheduler}.step(means.get("val_loss", means["loss"]))',
        f'    elif type({scheduler}).__name__ not in ("OneCycleLR", "CyclicLR"):',
        f"        {scheduler}.step()",
    ]


def _autocast(options: FitOptions) -> str:
    dtype = _DTYPES.get(options.precision)
    return f"torch.autocast(device.type, dtype={dtype})" if dtype else ""
