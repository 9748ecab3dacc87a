/** What the server part sends. Its other half is gpulayer_nb/server/snapshot.py; a field keeps its meaning while PROTOCOL does. */

export const PROTOCOL = 1;

export type RankState = 'idle' | 'starting' | 'running' | 'waiting' | 'silent' | 'failed' | 'dead';
export type RunState = 'starting' | 'running' | 'stopping' | 'finished' | 'stopped' | 'failed';

/** Memory in MiB, processor and GPU in per cent, `rates` samples/s once a second. */
export interface IRank {
  slot: number;
  rank: number;
  engine: number | null;
  pid: number | null;
  node: number | null;
  local_rank: number | null;
  device: string;
  state: RankState;
  detail: string;
  step: number | null;
  rate: number | null;
  rates: (number | null)[];
  cpu: number | null;
  memory: number | null;
  machine: number | null;
  gpu: number | null;
  gpu_memory: number | null;
  gpu_total: number | null;
  gpu_name: string | null;
  collective: string | null;
  entered: number;
}

/** `free` is how many engines more it offers; null for as many as are asked for. */
export interface IWorker {
  key: string;
  name: string;
  address: string;
  facts: string;
  offers: string;
  free: number | null;
  ranks: string[];
}

export interface ICluster {
  name: string;
  kind: 'embedded' | 'open' | 'ipyparallel';
  state: 'starting' | 'idle' | 'running' | 'silent';
  run: string | null;
  note: string;
  ours: boolean;
  notebook: string | null;
  join: string;
  workers: IWorker[];
}

/** Times in seconds, `begun` since the epoch; a metric that is no number is a word. */
export interface IRun {
  id: string;
  state: RunState;
  mode: string;
  nodes: number | null;
  devices: number | null;
  begun: number | null;
  elapsed: number | null;
  error: string;
  metrics: Record<string, number | string>;
  notebook: string | null;
  stops: number;
  step: number | null;
  end_step: number | null;
  epoch: number | null;
  epochs: number | null;
  phase: string;
  rate: number | null;
  eta: number | null;
  metric: string | null;
  curve: number[];
}

export interface IWhole {
  type: 'whole';
  protocol: number;
  clusters: ICluster[];
  ranks: Record<string, IRank>;
  runs: IRun[];
}

/** Only what is new; `runs` replaces the list, `run_changes` parts of its rows. */
export interface IChanges {
  type: 'changes';
  protocol: number;
  clusters?: ICluster[];
  ranks?: Record<string, Partial<IRank>>;
  gone?: string[];
  runs?: IRun[];
  run_changes?: Record<string, Partial<IRun>>;
}

export type Message = IWhole | IChanges;
