#!/usr/bin/env python3
"""Compares our pipeline planner with PyTorch's proposed automatic cut (pytorch/pytorch, pull request 179212).

    autocut.py ECITON [--chains 60] [--seed 0] [--only chains|models] [--schedules 1f1b,gpipe] [--verbose]

The pull request cuts a list of layers into exactly as many runs as there are workers. Dynamic programming minimises the
slowest run's forward and backward time. A search then simulates the schedule, finds the stage with the largest share of
the critical path in the steady phase, moves that stage's first layer back or last layer on, cuts the layers before it
again, and returns the fastest cut. This script implements that from the text of the pull request. It shares no code.

Inputs are random chains of 3 to 8 layers with random times and output sizes, with and without slow links (`eciton plan
--measured`), and published models (`eciton simulate --pipeline`). One simulation judges both cuts, by three rules for the
next step of a stage:

    ready   forward steps up to a cap first, else backward steps, among the steps whose rows have arrived
    eciton  the same, among the steps whose inputs have been computed; the stage waits for their rows, as in Eciton
    fixed   the order of steps of PyTorch's schedules

The pull request has no GPipe, so its 1F1B cut is judged there. It has no graphs either, so a graph's operators are one
list in topological order for it.

Ratios are the round time of the pull request's cut over ours; the ratio `own` is its time by `fixed` over ours by
`eciton`. `best` is the fastest of all cuts of a chain into at most as many stages as there are workers.
"""
import argparse
import functools
import graphlib
import heapq
import itertools
import json
import pathlib
import random
import statistics
import subprocess
import tempfile

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("eciton"), p.add_argument("--chains", type=int, default=60), p.add_argument("--seed", type=int, default=0)
p.add_argument("--only", choices=["chains", "models"]), p.add_argument("--schedules", default="1f1b,gpipe")
p.add_argument("--verbose", action="store_true", help="print each chain, not only the summary")
RULES = ["ready", "eciton", "fixed"]
ROWS, MBIT = 8, 125_000  # Rows of a micro-batch of a chain; bytes per second.
# Model and numbers of workers.
MODELS = [("gpt-1.3b", [4, 8]), ("gpt-2.2b", [5, 8]), ("layers-7x4096", [3, 4]), ("layers-12x1024", [5, 8]), ("dlrm", [4, 8]),
          ("candle-uno", [4, 8]), ("transformer-4x8", [4, 8])]


def order(depth, stage, micro, schedule):
    """Returns the order of a stage's steps in PyTorch's schedules. `None` is a pause of one step."""
    if schedule == "gpipe":
        return [("F", at) for at in range(micro)] + [("B", at) for at in range(micro)]
    ahead = depth - 1 - stage
    pairs = [step for at in range(micro - ahead) for step in [("F", ahead + at), ("B", at)]]
    last = [step for at in range(micro - ahead, micro) for step in [None, ("B", at)]]
    return [None] * stage + [("F", at) for at in range(ahead)] + [None] * ahead + pairs + last


@functools.cache
def graph(depth, micro):
    """Returns the pull request's graph of a 1F1B round: (stage, kind) and predecessors of each node, a topological order,
    and the nodes of the steady phase. Kinds are F and B, with S for sent rows and R for received ones."""
    onward = lambda stage, kind: stage + (1 if kind == "F" else -1)
    exists = lambda stage: 0 <= stage < depth
    left, lists = [order(depth, stage, micro, "1f1b") for stage in range(depth)], [[] for _ in range(depth)]
    while any(left):
        for stage in filter(lambda stage: left[stage], range(depth)):
            step = left[stage][0]
            if step:
                kind, batch = step
                if exists(2 * stage - onward(stage, kind)) and ("R" + kind, batch) not in lists[stage]:
                    continue
                lists[stage].append(step)
                if exists(to := onward(stage, kind)):
                    lists[stage].append(("S" + kind, batch)), lists[to].append(("R" + kind, batch))
            left[stage].pop(0)
    nodes = [(stage, kind, batch) for stage, steps in enumerate(lists) for kind, batch in steps]
    number = {node: at for at, node in enumerate(nodes)}

    def data(stage, kind, batch):
        """Returns the steps whose rows a step reads."""
        if kind[0] == "S":
            return [(stage, kind[1], batch)]
        if kind[0] == "R":
            return [(2 * stage - onward(stage, kind[1]), "S" + kind[1], batch)]
        return [(stage, of, batch) for of in ["R" + kind, "F"] if of != kind and (stage, of, batch) in number]

    before = {at: {number[of] for of in data(*node)} for at, node in enumerate(nodes)}
    for stage in range(depth):
        for compute in [True, False]:
            chain = [number[stage, *step] for step in lists[stage] if (len(step[0]) == 1) == compute]
            for one, other in itertools.pairwise(chain):
                before[other].add(one)
    # Each stage runs at most one step, also of a transfer, per tick of a clock.
    ticks, at, queues = {}, 0, [[number[stage, *step] for step in steps] for stage, steps in enumerate(lists)]
    while any(queues):
        moved = set()
        for stage in [*range(depth), *range(depth)]:
            queue = queues[stage]
            if queue and stage not in moved and all(number[of] in ticks for of in data(*nodes[queue[0]])):
                moved.add(stage)
                ticks[queue.pop(0)] = at
        at += 1
    first = min(ticks[at] for at, node in enumerate(nodes) if node[1] == "B")
    last = max(ticks[at] for at, node in enumerate(nodes) if node[1] == "F")
    steady = {at for at in ticks if first <= ticks[at] <= max(first, last)}
    return [node[:2] for node in nodes], before, list(graphlib.TopologicalSorter(before).static_order()), steady


def critical(forward, backward, sends, micro):
    """Returns the time of a round in the pull request's graph, and the critical stage of the steady phase."""
    nodes, before, ordered, steady = graph(len(forward), micro)

    def seconds(stage, kind):
        times = {"F": forward[stage], "B": backward[stage], "SF": sends[stage : stage + 1], "SB": sends[stage - 1 : stage]}
        found = times.get(kind, 0.0)
        return found[0] if isinstance(found, list) else found

    took, ends, decides = [seconds(*node) for node in nodes], {}, {}
    for at in ordered:
        decides[at] = min(before[at], key=lambda of: (-ends[of], of), default=None)
        ends[at] = took[at] + (0.0 if decides[at] is None else ends[decides[at]])
    at = min(ends, key=lambda of: (-ends[of], of))
    path, round_s = [], ends[at]
    while at is not None:
        path.append(at)
        at = decides[at]
    share = [0.0] * len(forward)
    for at in [at for at in path if at in steady] or path:
        share[nodes[at][0]] += took[at]
    return round_s, max(range(len(share)), key=lambda stage: (share[stage], -stage))


def balanced(costs, parts):
    """Returns the starts of runs whose largest cost is the smallest."""
    total = [0.0, *itertools.accumulate(costs)]
    best = {(0, 0): (0.0, None)}
    for count in range(1, parts + 1):
        for end in range(count, len(costs) + 1):
            fits = [at for at in range(count - 1, end) if (at, count - 1) in best]
            best[end, count] = min((max(best[at, count - 1][0], total[end] - total[at]), at) for at in fits)
    starts, end = [], len(costs)
    for count in range(parts, 0, -1):
        end = best[end, count][1]
        starts.append(end)
    return starts[::-1]


def automatic(chain, lanes, micro):
    """Returns the starts of the pull request's stages."""
    costs = [forward + backward for forward, backward, _ in chain]

    def judged(starts):
        stages = cut(chain, starts)
        sends = [next(iter(reads.values())) for _, _, reads in stages[1:]]
        return *critical([of[0] for of in stages], [of[1] for of in stages], sends, micro), starts

    queue = [judged(balanced(costs, lanes))]
    known, best = {tuple(queue[0][2])}, queue[0]
    while queue:
        _, stage, starts = queue.pop(0)
        ends = [*starts[1:], len(chain)]
        if stage == 0 or ends[stage] - starts[stage] < 2:
            continue
        moved = [balanced(costs[: starts[stage] + 1], stage) + [starts[stage] + 1] + starts[stage + 1 :]]
        if stage + 1 < lanes:
            moved.append(balanced(costs[: ends[stage] - 1], stage + 1) + [ends[stage] - 1] + starts[stage + 2 :])
        for other in moved:
            if tuple(other) not in known:
                known.add(tuple(other))
                found = judged(other)
                best = min(best, found, key=lambda of: of[0])
                if found[1] <= stage:
                    queue.append(found)
    return best[2]


def check():
    """Compares this script's version of the pull request with the cuts that the pull request's tests expect."""
    expected = [([8, 11, 2, 1, 18, 5, 4, 11], (1e-3, 0.0), [0, 1, 4, 5], [0, 3, 5, 6]),
                ([1170, 2846, 1146, 4254, 2199, 1289, 6888, 2312], (1 / 312e12, 128 / 50e9), [0, 3, 6, 7], [0, 4, 6, 7])]
    for flops, (pace, send), first, best in expected:
        chain = [(of * pace, 2 * of * pace, send) for of in flops]
        found = balanced([3 * of for of in flops], 4), automatic(chain, 4, 8)
        assert found == (first, best), f"found {found}, expected {first} and {best}"


def cut(chain, starts):
    """Returns the stages of a chain: forward and backward seconds, and seconds of a transfer from the stage before."""
    stages = []
    for at, (start, end) in enumerate(zip(starts, [*starts[1:], len(chain)])):
        reads = {at - 1: chain[start - 1][2]} if at else {}
        stages.append((sum(of[0] for of in chain[start:end]), sum(of[1] for of in chain[start:end]), reads))
    return stages


def judge(stages, micro, schedule, rule):
    """Returns the time of a round. A transfer occupies the sender's link out and the receiver's link in."""
    depth = len(stages)
    readers = [[at for at, of in enumerate(stages) if stage in of[2]] for stage in range(depth)]
    caps = [1] * depth
    for stage in reversed(range(depth)):
        caps[stage] = micro if schedule == "gpipe" else min(micro, 1 + max((caps[of] for of in readers[stage]), default=0))
    fixed = [[of for of in order(caps[stage], 0, micro, schedule) if of] for stage in range(depth)]
    waits = {(stage, "F", at): len(stages[stage][2]) for stage in range(depth) for at in range(micro)}
    waits |= {(stage, "B", at): len(readers[stage]) + 1 for stage in range(depth) for at in range(micro)}
    begun = {(stage, kind): 0 for stage in range(depth) for kind in "FB"}
    ended, busy, out, into = [0] * depth, [False] * depth, [0.0] * depth, [0.0] * depth
    events, now, count, arrivals = [], 0.0, itertools.count(), {}

    def begin(stage):
        kinds = "FB"
        if rule == "fixed":
            at = begun[stage, "F"] + begun[stage, "B"]
            kinds = fixed[stage][at][0] if at < 2 * micro else ""
        for kind in kinds:
            at = begun[stage, kind]
            room = kind == "B" or begun[stage, "F"] - ended[stage] < caps[stage]
            if at < micro and waits[stage, kind, at] == 0 and room:
                begun[stage, kind], busy[stage] = at + 1, True
                start = max(now, arrivals.get((stage, kind, at), 0.0))
                heapq.heappush(events, (start + stages[stage][kind == "B"], next(count), True, (stage, kind, at)))
                return

    while True:
        for stage in range(depth):
            if not busy[stage]:
                begin(stage)
        if not events:
            return now
        now = events[0][0]
        while events and events[0][0] <= now:
            _, _, is_end, (stage, kind, at) = heapq.heappop(events)
            if not is_end:
                waits[stage, kind, at] -= 1
                continue
            busy[stage] = False
            if kind == "F":
                waits[stage, "B", at] -= 1
            else:
                ended[stage] += 1
            for to in readers[stage] if kind == "F" else sorted(stages[stage][2], reverse=True):
                seconds = stages[to][2][stage] if kind == "F" else stages[stage][2][to]
                start = max(now, out[stage], into[to]) if seconds else now
                if seconds:
                    out[stage] = into[to] = start + seconds
                if rule == "eciton":
                    waits[to, kind, at] -= 1
                    arrivals[to, kind, at] = max(arrivals.get((to, kind, at), 0.0), start + seconds)
                else:
                    heapq.heappush(events, (start + seconds, next(count), False, (to, kind, at)))


def run(*words):
    done = subprocess.run([a.eciton, *map(str, words)], cwd=work, text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(f"eciton {' '.join(map(str, words))}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout.lstrip().startswith("{") else None


def drawn(draw):
    """Returns a random chain, its numbers of workers and micro-batches, and a bandwidth in Mbit/s."""
    layers, link = draw.randint(3, 8), draw.choice([10, 10_000_000])
    lanes = draw.randint(2, min(layers, 5))
    widths = [draw.randint(1, 256) for _ in range(layers - 1)]
    times = [(draw.randint(1, 8) * 1e-3, draw.randint(1, 16) * 1e-3) for _ in range(layers)]
    sends = [4 * ROWS * width / (link * MBIT) for width in widths] + [0.0]
    return [(*time, send) for time, send in zip(times, sends)], widths, lanes, draw.choice([8, 16]), link


def own_chain(chain, widths, lanes, micro, link, schedule):
    """Returns the stages of our plan for a chain, and its planned time of a round."""
    layers = [f'[[layers]]\nkernel = "linear"\n{f"width = {width}" if width else ""}' for width in [*widths, 0]]
    (work / "chain.toml").write_text("dropout = 0.0\n" + "\n".join(layers))
    # The loss takes no time.
    seconds = [of[0] for of in chain] + [0.0] + [of[1] for of in reversed(chain)]
    stages = [{"stage": at, "host_seconds_per_row": one / ROWS, "host_seconds_per_call": 0.0} for at, one in enumerate(seconds)]
    names = ["flop", "edge_value", "byte", "value_added", "value_updated", "step"]
    paces = {f"seconds_per_{name}": 0.0 for name in names}
    function = {f"seconds_per_{name}": 0.0 for name in ["flop", "step"]}
    profile = {"version": 1, "source": "random", "host": paces, "function": function, "stages": stages}
    (work / "chain.json").write_text(json.dumps(profile))
    sets = ["workers.owner=worker", "workers.listen=127.0.0.1:0", "workers.tokens=tokens", f"cluster.link_mbits={link}",
            "cluster.host_link_mbits=10000000", "cluster.transfer_us=0"]
    found = run("plan", "rows", "--model", "chain.toml", "--batch", ROWS * micro, "--micro", micro, "--lanes", lanes, "--workers", lanes,
                "--schedule", schedule, "--measured", "chain.json", *[word for one in sets for word in ["--set", one]], "--json")
    own = found["planned"]["own"]
    starts = [int(names[0].split()[1]) for names, _, _ in own["stages"]]
    return cut(chain, starts), ROWS * micro / own["rows_per_second"], starts


def published(name, rows):
    """Returns the operators of a published model for a micro-batch: name -> (reads, forward seconds, backward seconds, seconds
    of a transfer). Sizes are those of host/planner/src/models.rs, with 50 TFLOP/s, 5 us per kernel and links of 100 Gbit/s."""
    made = {}

    def add(name, reads, kernels, flops, output):
        call, row = 5e-6 * kernels, rows * flops / 50e12
        made[name] = (reads, call + row, call + 2 * row, rows * 2 * output / 12.5e9)
        return [name]

    def stack(name, reads, features, width, layers):
        for layer in range(layers):
            reads = add(f"{name} layer {layer}".strip(), reads, 2, 2 * features * width, width)
            features = width
        return reads

    def layer(name, reads, tokens, hidden):
        return add(name, reads, 20, 24 * tokens * hidden**2 + 4 * tokens**2 * hidden, tokens * hidden)

    kind, _, size = name.partition("-")
    if kind == "layers":
        count, width = map(int, size.split("x"))
        stack("", [], width, width, count)
    elif kind == "gpt":
        layers, hidden = {"1.3b": (24, 2048), "2.2b": (48, 1920), "3.9b": (48, 2560)}[size]
        last = add("embedding", [], 1, 0, 512 * hidden)
        for at in range(layers):
            last = layer(f"layer {at}", last, 512, hidden)
        add("head", last, 2, 2 * 512 * hidden * 51_200, 0)
    elif kind == "transformer":
        branches, ends = size.split("x"), []
        for branch in range(int(branches[0])):
            last = []
            for at in range(int(branches[1])):
                last = layer(f"branch {branch} layer {at}", last, 256, 1024)
            ends += last
        add("join", ends, 2, 2 * 256 * len(ends) * 1024 * 1024, 256 * 1024)
    elif kind == "dlrm":
        ends = [one for at in range(7) for one in stack(f"dense {at}", [], 4096, 4096, 4)]
        for at in range(7):
            ends += add(f"sparse {at}", add(f"table {at}", [], 1, 128, 64), 2, 2 * 64 * 4096, 4096)
        stack("top", ends, 14 * 4096, 4096, 4)
    else:
        inputs = {"dose 1": 1, "dose 2": 1, "cell rnaseq": 942, "drug 1 descriptors": 5270, "drug 1 fingerprints": 2048,
                  "drug 2 descriptors": 5270, "drug 2 fingerprints": 2048}
        ends = [one for name, features in inputs.items() for one in stack(name, [], features, 4192, 4)]
        stack("top", ends, 7 * 4192, 4192, 4)
    return made


def as_chain(operators):
    """Returns the operators as one list in their order. A transfer has all rows that later operators read."""
    last = {read: at for at, of in enumerate(operators.values()) for read in of[0]}
    names = list(operators)
    sends = [sum(operators[one][3] for one in names[: at + 1] if last.get(one, 0) > at) for at in range(len(names))]
    return [(of[1], of[2], send) for of, send in zip(operators.values(), sends)]


def own_model(name, operators, lanes, micro, schedule):
    """Returns the stages of our plan for a published model, and its planned time of a round."""
    found = run("simulate", "--pipeline", name, "--lanes", lanes, "--micro", micro, "--width", 1, "--schedule", schedule, "--hours", 0.001,
                "--json")
    stage_of = {one: at for at, stage in enumerate(found["stages"]) for one in stage["operators"]}
    stages = []
    for at, stage in enumerate(found["stages"]):
        own = [operators[one] for one in stage["operators"]]
        times = sum(of[1] for of in own), sum(of[2] for of in own)
        for one, other in zip(times, [stage["forward_seconds"], stage["backward_seconds"]]):
            assert abs(one - other) <= 1e-9 * other, f"{name}: stage {at} takes {other} s in the plan, and {one} s by the operators"
        reads = {}
        for read in dict.fromkeys(read for of in own for read in of[0] if stage_of[read] != at):
            reads[stage_of[read]] = reads.get(stage_of[read], 0.0) + operators[read][3]
        stages.append((*times, reads))
    return stages, 256 / found["planned_rows_per_s"]


def spread(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def chains(schedule):
    """Prints a summary of the random chains: ratios, and how often each planner has the faster cut or the best one."""
    draw, rows = random.Random(a.seed), []
    for number in range(a.chains):
        chain, widths, lanes, micro, link = drawn(draw)
        own, planned, starts = own_chain(chain, widths, lanes, micro, link, schedule)
        theirs = automatic(chain, lanes, micro)
        cuts = [[0, *at] for count in range(lanes) for at in itertools.combinations(range(1, len(chain)), count)]
        row = {"slow": link == 10}
        for rule in RULES:
            times = [judge(stages, micro, schedule, rule) for stages in [own, cut(chain, theirs)]]
            best = min(judge(cut(chain, of), micro, schedule, rule) for of in cuts)
            row[rule] = times[1] / times[0], times[0] / best, times[1] / best
            if rule == "eciton":
                ours_s, row["error"] = times[0], abs(times[0] / planned - 1)
        row["own"] = times[1] / ours_s, 1.0, 1.0
        rows.append(row)
        if a.verbose:
            print(f"chain {number}, {schedule}: {len(chain)} layers, {lanes} workers, {micro} micro-batches, {link} Mbit/s: starts {starts} "
                  f"and {theirs}; ratio, ours / best, theirs / best: {[tuple(round(x, 4) for x in row[rule]) for rule in RULES]}", flush=True)
    for slow, rule in itertools.product([False, True], [*RULES, "own"]):
        found = [row[rule] for row in rows if row["slow"] == slow]
        if not found:
            continue
        ratios, own, theirs = zip(*found)
        faster = sum(of > 1 + 1e-9 for of in ratios), sum(of < 1 - 1e-9 for of in ratios)
        at_best = [sum(of < 1 + 1e-9 for of in each) for each in [own, theirs]]
        bests = f"{at_best[0]}, {max(own):.3f} | {at_best[1]}, {max(theirs):.3f}" if rule != "own" else " | "
        print(f"| {len(found)} chains, {'slow' if slow else 'fast'} links | {schedule} | {rule} | {spread(ratios)} | {faster[0]}, {faster[1]} | "
              f"{bests} |", flush=True)
    print(f"largest difference of our plans' times from those by `eciton`: {max(row['error'] for row in rows):.1e}")


def models(schedule):
    for name, counts in MODELS:
        for lanes, micro in [(lanes, micro) for lanes in counts for micro in [8, 32]]:
            operators = published(name, -(-256 // micro))
            own, planned = own_model(name, operators, lanes, micro, schedule)
            chain = as_chain(operators)
            theirs = cut(chain, automatic(chain, lanes, micro))
            times = {rule: [judge(stages, micro, schedule, rule) for stages in [own, theirs]] for rule in RULES}
            ratios = [of[1] / of[0] for of in times.values()] + [times["fixed"][1] / times["eciton"][0]]
            seconds = [planned, *times["eciton"], times["fixed"][1]]
            print(f"| {name} | {schedule} | {lanes} | {micro} | {len(own)} | {' | '.join(f'{one:.5g}' for one in seconds)} | "
                  f"{' | '.join(f'{one:.3f}' for one in ratios)} |", flush=True)


if __name__ == "__main__":
    a = p.parse_args()
    a.eciton = str(pathlib.Path(a.eciton).absolute())
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        check()
        print(f"seed {a.seed}; ratios are the pull request's round time / ours")
        if a.only != "models":
            run("data", "generate", "linear", "rows", "--rows", 1024, "--features", 2)
            print("| inputs | schedule | rule | ratio: median (range) | faster: ours, theirs | ours: best cuts, largest time / best | "
                  "theirs: the same |\n| --- | --- | --- | --- | --- | --- | --- |")
            for schedule in a.schedules.split(","):
                chains(schedule)
        if a.only != "chains":
            print("| model | schedule | workers | micro-batches | our stages | ours planned, s | ours, eciton | theirs, eciton | theirs, fixed | "
                  f"{' | '.join(f'ratio, {rule}' for rule in [*RULES, 'own'])} |\n|{' --- |' * 13}")
            for schedule in a.schedules.split(","):
                models(schedule)
