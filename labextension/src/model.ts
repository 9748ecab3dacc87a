/** What is selected, folded, asked for: the panel's own state beside the server's picture. */

import { ISignal, Signal } from '@lumino/signaling';
import { IShape } from './cells';
import { Feed } from './feed';
import { IPicture, NOTHING } from './picture';
import { ICluster, IRank, IRun } from './protocol';
import { PanelServer } from './server';

/** What is selected: a row of the tree by its key, or a run. */
export type Selection = { kind: 'cluster' | 'worker' | 'rank' | 'run'; key: string } | null;

export type HeatValue = 'rate' | 'cpu' | 'memory' | 'gpu';

export class PanelModel {
  constructor(
    readonly server: PanelServer,
    readonly feed: Feed
  ) {
    feed.changed.connect(() => this.signal.emit());
  }

  readonly folded = new Set<string>();
  defaults: IShape = { nodes: 2, devices: 2 };
  heat: HeatValue = 'rate';
  busy = ''; // what is being done, in a few words
  report: { run: string; text: string } | null = null;

  get changed(): ISignal<this, void> {
    return this.signal;
  }

  get picture(): IPicture {
    return this.feed.picture ?? NOTHING;
  }

  get selection(): Selection {
    return this.selected;
  }

  select(selection: Selection): void {
    this.selected = selection;
    this.signal.emit();
  }

  fold(key: string, folded: boolean): void {
    folded ? this.folded.add(key) : this.folded.delete(key);
    this.signal.emit();
  }

  update(): void {
    this.signal.emit();
  }

  /** The cluster that is selected, or holds what is; the only one if there is one. */
  get cluster(): ICluster | null {
    const { clusters } = this.picture;
    const chosen = this.selected;
    if (chosen && chosen.kind !== 'run') {
      const key = chosen.key.replace(/^(cluster|worker):/, '');
      const found = clusters.find(one => key === one.name || key.startsWith(`${one.name}/`));
      if (found) {
        return found;
      }
    }
    return clusters.length === 1 ? clusters[0] : null;
  }

  get rank(): IRank | null {
    return this.selected?.kind === 'rank' ? (this.picture.ranks[this.selected.key] ?? null) : null;
  }

  /** The run that is selected, or that is on at the selected cluster. */
  get run(): IRun | null {
    const chosen = this.selected;
    const id = chosen?.kind === 'run' ? chosen.key : (this.cluster?.run ?? null);
    return this.picture.runs.find(run => run.id === id) ?? null;
  }

  private readonly signal = new Signal<this, void>(this);
  private selected: Selection = null;
}

export function isOver(run: IRun): boolean {
  return run.state === 'finished' || run.state === 'stopped' || run.state === 'failed';
}
