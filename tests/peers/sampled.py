#!/usr/bin/env python3
"""Full-graph training beside samplers: accuracy, and what 95 % and 99 % of the full graph's accuracy cost.

    python3 sampled.py target/release/eciton DATA/amazon_photo DATA/coauthor_cs --seeds 5

A two-layer GCN, dropout 0.5 before the second layer alone. The target is a share of the full graph's test
accuracy at its best validation accuracy, mean over seeds. Seconds are from the start of the process to the
first epoch that reaches it: reading the data, counting samples, and the training, without evaluations. Rounds
and operations are of the training alone. All are medians over the seeds that reach the target. Dollars are core
seconds at the price of a core hour (`docs/explanation/when-functions-pay.md`). One line a method, in Markdown.
"""
import argparse, ast, json, math, os, statistics, subprocess, sys, tempfile

CORE_HOUR_USD = 0.085  # as eciton_plan::executor::CORE_HOUR_USD
CORES = os.cpu_count()
MODEL = '[[layers]]\nkernel = "gcn"\nwidth = {hidden}\ndropout = 0.0\n[[layers]]\nkernel = "gcn"\ndropout = 0.5\n'

def meta(folder):
    with open(os.path.join(folder, 'meta.json')) as file: return json.load(file)

def training_rows(folder):
    """The length of train.npy, a list of rows."""
    with open(os.path.join(folder, 'train.npy'), 'rb') as file:
        file.seek(8)
        length = int.from_bytes(file.read(2), 'little')
        return ast.literal_eval(file.read(length).decode())['shape'][0]

def run(eciton, folder, model, epochs, seeds, flags):
    command = [eciton, 'train', folder, '--model', model, '--epochs', str(epochs), '--seeds', str(seeds), '--no-out', '--json', *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode: sys.exit(f'{" ".join(command)}: {done.stderr.strip()}')
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    curves = {}
    for line in lines:
        if line.get('event') == 'epoch': curves.setdefault(line['seed'], []).append(line)
    return curves, lines[-1]

def beginning(*of):
    """The seconds from the start of a process to its first epoch, from a run of one epoch without evaluations."""
    curves, summary = run(*of)
    return summary['total_seconds'] - sum(epoch['seconds'] for curve in curves.values() for epoch in curve)

def accuracy(curve): return max(curve, key=lambda e: (e['val_metric'], -e['epoch']))['test_metric']

def reached(curve, target, rounds, begun):
    seconds, flops = begun, 0
    for epoch in curve:
        seconds += epoch['seconds']; flops += epoch['flops']
        if epoch['test_metric'] >= target: return epoch['epoch'] * rounds, seconds, flops
    return None

def counting(summary):
    counted = (summary.get('batches') or {}).get('counted')
    return f'{counted["seconds"]:.2g}' if counted else '–'

def cell(curves, target, rounds, begun):
    hits = [hit for hit in (reached(curve, target, rounds, begun) for curve in curves.values()) if hit]
    if not hits: return 'not reached'
    updates, seconds, flops = (statistics.median(column) for column in zip(*hits))
    dollars = seconds * CORES / 3600 * CORE_HOUR_USD
    some = '' if len(hits) == len(curves) else f' ({len(hits)} of {len(curves)} seeds)'
    return f'{updates:.0f}, {seconds:.3g} s, {flops / 1e9:.3g} GFLOP, ${dollars:.2g}{some}'

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('eciton'); parser.add_argument('data', nargs='+')
    parser.add_argument('--seeds', type=int, default=5); parser.add_argument('--hidden', type=int, default=64)
    parser.add_argument('--lr', default='0.01'); parser.add_argument('--epochs', type=int, default=100, help='of the full graph')
    parser.add_argument('--rows', type=int, default=0, help='vertices of a sampled update; 0: a third of all, at most 18,000')
    parser.add_argument('--batch', type=int, default=512, help='training rows of an update with neighbours')
    parser.add_argument('--methods', default='', help='a list of methods, separated by commas [default: all]')
    parser.add_argument('--updates', type=int, default=0, help='of a sampler, about; 0: as many as epochs of the full graph')
    args = parser.parse_args()
    for folder in args.data:
        name, vertices, training = os.path.basename(folder.rstrip('/')), meta(folder)['v'], training_rows(folder)
        with tempfile.NamedTemporaryFile('w', suffix='.toml') as model:
            model.write(MODEL.format(hidden=args.hidden)); model.flush()
            rows = args.rows or min(vertices // 3, 18_000)
            batch = min(args.batch, training)
            updates = args.updates or args.epochs
            methods = [
                ('full graph', 1, args.epochs, []),
                *((s, math.ceil(training / rows), 0, ['--sampler', s, '--batch', str(rows), '--micro', '2']) for s in ('vertex', 'edge', 'walk', 'frontier')),
                ('neighbours 10,10', math.ceil(training / batch), 0, ['--sampler', 'neighbours', '--fan-out', '10,10', '--batch', str(batch), '--micro', '2']),
                ('shadow-khop 10,5', math.ceil(training / batch), 0, ['--sampler', 'shadow-khop', '--fan-out', '10,5', '--batch', str(batch), '--micro', '2',
                                                                      '--set', 'run.gather_features=each-epoch']),
                ('parts, 4', 1, args.epochs, ['--sampler', 'parts', '--micro', '4']),
            ]
            wanted = args.methods.split(',') if args.methods else [method[0].split()[0].rstrip(',') for method in methods]
            methods = [method for method in methods if method[0] == 'full graph' or method[0].split()[0].rstrip(',') in wanted]
            print(f'\n{name}: {vertices} vertices, {training} training rows, {args.seeds} seeds, an update of {rows} vertices or {batch} training rows\n')
            print('| method | test accuracy | to 95 %: rounds, time, operations, dollars | to 99 % | counting, s | epoch, s | peak memory |')
            print('| --- | --- | --- | --- | --- | --- | --- |', flush=True)
            target = None
            for method, rounds, epochs, flags in methods:
                epochs = epochs or max(3, math.ceil(updates / rounds))
                curves, summary = run(args.eciton, folder, model.name, epochs, args.seeds, ['--lr', args.lr, *flags])
                begun = beginning(args.eciton, folder, model.name, 1, 1, [*flags, '--set', 'evaluation.method=none', '--set', 'run.keep=last'])
                found = [accuracy(curve) for curve in curves.values()]
                target = target or statistics.mean(found)
                spread = f' ± {100 * statistics.stdev(found):.2f}' if len(found) > 1 else ''
                print(f'| {method} | {100 * statistics.mean(found):.2f}{spread} | {cell(curves, .95 * target, rounds, begun)} | {cell(curves, .99 * target, rounds, begun)} | '
                      f'{counting(summary)} | '
                      f'{summary["epoch_seconds_median"]:.3g} | {summary["peak_memory_bytes"] / 2**20:.0f} MiB |', flush=True)

main()
