/** The tree as a list of the rows one sees, and where a key leads from one of them. Pure. */

import { IPicture } from './picture';

export const MOST_ROWS = 16; // ranks of a cluster; more are shown as a grid

export interface ITreeRow {
  key: string;
  kind: 'cluster' | 'worker' | 'rank';
  level: 1 | 2 | 3;
  parent: string | null;
  open: boolean | null; // null: nothing to unfold
  cluster: string;
}

export function clusterKey(name: string): string {
  return `cluster:${name}`;
}

export function workerKey(cluster: string, worker: string): string {
  return `worker:${cluster}/${worker}`;
}

export function isMany(picture: IPicture, cluster: string): boolean {
  const found = picture.clusters.find(one => one.name === cluster);
  return !!found && found.workers.reduce((sum, worker) => sum + worker.ranks.length, 0) > MOST_ROWS;
}

export function treeRows(picture: IPicture, folded: ReadonlySet<string>): ITreeRow[] {
  const rows: ITreeRow[] = [];
  for (const cluster of picture.clusters) {
    const key = clusterKey(cluster.name);
    const open = cluster.workers.length ? !folded.has(key) : null;
    rows.push({ key, kind: 'cluster', level: 1, parent: null, open, cluster: cluster.name });
    if (!open || isMany(picture, cluster.name)) {
      continue;
    }
    for (const worker of cluster.workers) {
      const inner = workerKey(cluster.name, worker.key);
      const shown = worker.ranks.length ? !folded.has(inner) : null;
      rows.push({ key: inner, kind: 'worker', level: 2, parent: key, open: shown, cluster: cluster.name });
      for (const rank of shown ? worker.ranks : []) {
        rows.push({ key: rank, kind: 'rank', level: 3, parent: inner, open: null, cluster: cluster.name });
      }
    }
  }
  return rows;
}

/** What a key does in a tree, as the ARIA practices say: where the focus goes, and whether a row is folded or unfolded. */
export interface IMove {
  to: string;
  fold?: boolean;
}

export function move(rows: readonly ITreeRow[], from: string | null, key: string): IMove | null {
  const at = rows.findIndex(row => row.key === from);
  if (!rows.length) {
    return null;
  }
  const row = rows[at] ?? rows[0];
  switch (key) {
    case 'ArrowDown':
      return { to: rows[Math.min(at + 1, rows.length - 1)].key };
    case 'ArrowUp':
      return { to: rows[Math.max(at - 1, 0)].key };
    case 'Home':
      return { to: rows[0].key };
    case 'End':
      return { to: rows[rows.length - 1].key };
    case 'ArrowRight':
      if (row.open === false) {
        return { to: row.key, fold: false };
      }
      return row.open ? { to: rows[Math.min(rows.indexOf(row) + 1, rows.length - 1)].key } : { to: row.key };
    case 'ArrowLeft':
      if (row.open) {
        return { to: row.key, fold: true };
      }
      return { to: row.parent ?? row.key };
    default:
      return null;
  }
}
