/** Everything the panel knows, and how a message changes it. Pure: a row that has not changed stays the same object. */

import { ICluster, IRank, IRun, Message } from './protocol';

export const RATES = 40;

export interface IPicture {
  readonly clusters: readonly ICluster[];
  readonly ranks: Readonly<Record<string, IRank>>;
  readonly runs: readonly IRun[];
}

export const NOTHING: IPicture = { clusters: [], ranks: {}, runs: [] };

export function apply(before: IPicture, message: Message): IPicture {
  if (message.type === 'whole') {
    const ranks: Record<string, IRank> = {};
    for (const [key, row] of Object.entries(message.ranks)) {
      ranks[key] = same(before.ranks[key], row);
    }
    return { clusters: message.clusters, ranks, runs: message.runs };
  }
  let ranks = before.ranks;
  if (message.ranks || message.gone) {
    const next: Record<string, IRank> = { ...before.ranks };
    for (const key of message.gone ?? []) {
      delete next[key];
    }
    for (const [key, fields] of Object.entries(message.ranks ?? {})) {
      next[key] = merged(before.ranks[key], fields);
    }
    ranks = next;
  }
  const changes = message.run_changes ?? {};
  const runs = (message.runs ?? before.runs).map(run => (changes[run.id] ? { ...run, ...changes[run.id] } : run));
  return { clusters: message.clusters ?? before.clusters, ranks, runs };
}

/** A change never repeats the past samples/s: each new one goes to their end. */
function merged(before: IRank | undefined, fields: Partial<IRank>): IRank {
  const row = { ...before, ...fields } as IRank;
  if (before && fields.rate !== undefined && !fields.rates) {
    row.rates = [...before.rates, fields.rate].slice(-RATES);
  }
  return row;
}

function same(before: IRank | undefined, now: IRank): IRank {
  return before && JSON.stringify(before) === JSON.stringify(now) ? before : now;
}

export interface ICount {
  ranks: number;
  running: number;
}

export function count(picture: IPicture): ICount {
  const rows = Object.values(picture.ranks);
  return { ranks: rows.length, running: rows.filter(row => row.state === 'running' || row.state === 'waiting').length };
}
