/** The text of cells that the panel inserts. Pure. */

import { ICluster, IRank } from './protocol';

export interface IShape {
  nodes: number;
  devices: number;
}

/** How the cluster would be used whole; null if nothing is known of its size. */
export function shapeOf(cluster: ICluster, ranks: Readonly<Record<string, IRank>>): IShape | null {
  const sizes = cluster.workers.map(worker => worker.ranks.length + (worker.free ?? 0));
  const used = sizes.filter(size => size > 0);
  if (!used.length) {
    return null;
  }
  if (cluster.kind !== 'embedded') {
    return { nodes: used.length, devices: Math.min(...used) };
  }
  const nodes = cluster.workers.flatMap(worker => worker.ranks.map(key => ranks[key]?.node ?? 0));
  const count = Math.max(...nodes) + 1;
  return used[0] % count === 0 ? { nodes: count, devices: used[0] / count } : { nodes: 1, devices: used[0] };
}

/** A kernel's own cluster needs no target: it is the default. */
export function target(cluster: ICluster | null): string {
  return cluster && cluster.kind !== 'embedded' ? ` --target ${cluster.name}` : '';
}

export function trainingCell(cluster: ICluster | null, ranks: Readonly<Record<string, IRank>>, otherwise: IShape): string {
  const shape = (cluster && shapeOf(cluster, ranks)) ?? otherwise;
  return `%%gpulayer${target(cluster)} --nodes ${shape.nodes} --devices ${shape.devices}\n`;
}

export function ranksCell(cluster: ICluster | null, rank: IRank | null): string {
  return `%%ranks${rank === null ? '' : ` ${rank.rank}`}${target(cluster)}\n`;
}

export function attachCell(runId: string): string {
  return `%gpulayer attach ${runId}`;
}
