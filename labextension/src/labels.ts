/** The panel's sentences about a cluster, a rank, a run; every word goes through the translator. */

import { TranslationBundle } from '@jupyterlab/translation';
import { ICluster, IRank, IRun, IWorker } from './protocol';
import { base, clock, memoryOf, metric, short, whole } from './words';

export function stateWord(state: string, trans: TranslationBundle): string {
  const words: Record<string, string> = {
    idle: trans.__('idle'),
    starting: trans.__('starting'),
    running: trans.__('running'),
    waiting: trans.__('waiting'),
    silent: trans.__('silent'),
    failed: trans.__('failed'),
    dead: trans.__('dead'),
    stopping: trans.__('stopping'),
    stopped: trans.__('stopped'),
    finished: trans.__('finished')
  };
  return words[state] ?? state;
}

/** A kernel's own cluster is called by its notebook. */
export function clusterName(cluster: ICluster, trans: TranslationBundle): string {
  if (cluster.kind !== 'embedded') {
    return cluster.name;
  }
  return cluster.notebook ? base(cluster.notebook) : trans.__('local');
}

export function clusterWord(cluster: ICluster, trans: TranslationBundle): string {
  if (cluster.note) {
    return cluster.note;
  }
  return cluster.run ? trans.__('running %1', short(cluster.run)) : stateWord(cluster.state, trans);
}

export function clusterPlace(cluster: ICluster, trans: TranslationBundle): string {
  if (cluster.kind === 'embedded') {
    return trans.__('this machine');
  }
  return cluster.workers.length ? trans._n('%1 worker', '%1 workers', cluster.workers.length) : '';
}

export function rankPlace(rank: IRank, worker: string, trans: TranslationBundle): string {
  if (rank.node === null) {
    return trans.__('worker %1, slot %2', worker, rank.slot);
  }
  return trans.__('worker %1, node %2, local rank %3', worker, rank.node, rank.local_rank ?? 0);
}

export function rankFacts(rank: IRank, worker: string, trans: TranslationBundle): [string, string][] {
  const facts: [string, string][] = [[trans.__('place'), rankPlace(rank, worker, trans)]];
  const process = [
    rank.pid === null ? '' : trans.__('pid %1', rank.pid),
    rank.engine === null ? '' : trans.__('engine %1', rank.engine)
  ].filter(Boolean);
  if (process.length) {
    facts.push([trans.__('process'), process.join(', ')]);
  }
  if (rank.device) {
    facts.push([trans.__('device'), [rank.device, rank.gpu_name ?? ''].filter(Boolean).join(', ')]);
  }
  if (rank.gpu_memory !== null && rank.gpu_total !== null) {
    const busy = rank.gpu === null ? '' : `, ${trans.__('%1 % busy', Math.round(rank.gpu))}`;
    facts.push([trans.__('GPU memory'), `${memoryOf(rank.gpu_memory, rank.gpu_total)}${busy}`]);
  }
  if (rank.cpu !== null && rank.memory !== null) {
    const held = rank.machine === null ? '' : `, ${memoryOf(rank.memory, rank.machine)}`;
    facts.push([trans.__('host'), `${trans.__('CPU')} ${rank.cpu} %${held}`]);
  }
  if (rank.step !== null) {
    const pace = rank.rate === null ? '' : `, ${trans.__('%1 samples/s', whole(rank.rate))}`;
    facts.push([trans.__('step'), `${whole(rank.step)}${pace}`]);
  }
  if (rank.collective) {
    facts.push([trans.__('collective'), `${rank.collective} ${whole(rank.entered)}`]);
  }
  if (rank.detail) {
    facts.push([trans.__('note'), rank.detail]);
  }
  return facts;
}

/** The second line of a run: state, where it is, its metric. */
export function runLine(run: IRun, trans: TranslationBundle): string {
  const parts = [stateWord(run.state, trans)];
  if (run.epoch !== null && run.epochs !== null) {
    parts[0] += `, ${trans.__('epoch %1/%2', run.epoch + 1, run.epochs)}`;
  } else if (run.step !== null) {
    parts[0] += `, ${trans.__('step %1', whole(run.step))}`;
  }
  if (run.state === 'failed' && run.error) {
    parts[0] += `: ${run.error}`;
  }
  const name = run.metric ?? Object.keys(run.metrics)[0];
  if (name !== undefined && run.metrics[name] !== undefined && run.state !== 'failed') {
    parts.push(`${name} ${metric(run.metrics[name])}`);
  }
  return parts.join(' · ');
}

export function runPlace(run: IRun, trans: TranslationBundle): string {
  if (run.notebook) {
    return base(run.notebook);
  }
  const kinds: Record<string, string> = {
    train: trans.__('training cell'),
    ranks: trans.__('cell on ranks'),
    fit: trans.__('Trainer.fit')
  };
  const kind = kinds[run.mode] ?? run.mode;
  return run.nodes && run.devices ? `${kind}, ${run.nodes} × ${run.devices}` : kind;
}

export function runTime(run: IRun, now: number, trans: TranslationBundle): string {
  if (run.eta !== null) {
    return trans.__('ETA %1', clock(run.eta));
  }
  if (run.elapsed !== null) {
    return clock(run.elapsed);
  }
  return run.begun === null ? '' : clock(now - run.begun);
}

export function progress(run: IRun): number | null {
  return run.step === null || !run.end_step ? null : Math.min(1, run.step / run.end_step);
}

/** What a worker lends, and how much of it nobody has taken. */
export function workerOffers(worker: IWorker, trans: TranslationBundle): string {
  return worker.free ? trans.__('%1, %2 free', worker.offers, worker.free) : worker.offers;
}
