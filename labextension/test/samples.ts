/** Rows for tests. */

import { ICluster, IRank, IRun, IWhole } from '../src/protocol';

export function rank(number: number, fields: Partial<IRank> = {}): IRank {
  return {
    slot: number,
    rank: number,
    engine: number,
    pid: 100 + number,
    node: null,
    local_rank: null,
    device: 'cpu',
    state: 'running',
    detail: '',
    step: 1,
    rate: 10,
    rates: [10],
    cpu: 50,
    memory: 100,
    machine: 1000,
    gpu: null,
    gpu_memory: null,
    gpu_total: null,
    gpu_name: null,
    collective: null,
    entered: 0,
    ...fields
  };
}

export function cluster(name: string, ranks: number[], fields: Partial<ICluster> = {}): ICluster {
  const worker = {
    key: 'a',
    name: 'a',
    address: '',
    facts: '',
    offers: '',
    free: null,
    ranks: ranks.map(at => `${name}/a/${at}`)
  };
  return {
    name,
    kind: 'embedded',
    state: 'running',
    run: null,
    note: '',
    ours: false,
    notebook: null,
    join: '',
    workers: [worker],
    ...fields
  };
}

function run(id: string, step: number): IRun {
  return {
    id,
    state: 'running',
    mode: 'train',
    nodes: 1,
    devices: 2,
    begun: 0,
    elapsed: null,
    error: '',
    metrics: {},
    notebook: null,
    stops: 0,
    step,
    end_step: 100,
    epoch: 0,
    epochs: 1,
    phase: 'train',
    rate: 20,
    eta: 9,
    metric: 'loss',
    curve: []
  };
}

export function whole(...ranks: IRank[]): IWhole {
  const keyed = Object.fromEntries(ranks.map(row => [`local/a/${row.slot}`, row]));
  return {
    type: 'whole',
    protocol: 1,
    clusters: [
      cluster(
        'local',
        ranks.map(row => row.slot)
      )
    ],
    ranks: keyed,
    runs: [run('r-1', 5)]
  };
}
