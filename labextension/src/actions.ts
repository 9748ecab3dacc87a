/** What the panel's buttons and commands do: asks first where something is lost, says in words what did not work. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Clipboard, Dialog, showDialog, showErrorMessage } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import { attachCell, IShape, ranksCell, trainingCell } from './cells';
import { clusterName } from './labels';
import { PanelModel } from './model';
import { insertCell, openNotebook } from './notebook';
import { ICluster, IRank, IRun, IWorker } from './protocol';
import { ShapeForm } from './shape_form';
import { short } from './words';

export interface IActions {
  hasNotebook(): boolean;
  startCluster(shape?: IShape): Promise<void>;
  stopCluster(cluster: ICluster): Promise<void>;
  stopSelected(): Promise<void>;
  removeWorker(cluster: ICluster, worker: IWorker): Promise<void>;
  restart(cluster: ICluster, worker: IWorker, rank: IRank): Promise<void>;
  stopRun(run: IRun): Promise<void>;
  report(run: IRun): Promise<void>;
  reportOn(cluster: ICluster): Promise<void>;
  figure(run: IRun): Promise<void>;
  attach(run: IRun): Promise<void>;
  openNotebook(path: string): Promise<void>;
  insertTraining(): Promise<void>;
  insertRanks(cluster: ICluster | null, rank: IRank | null): Promise<void>;
  copy(text: string): void;
}

export class Actions implements IActions {
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly model: PanelModel,
    private readonly trans: TranslationBundle
  ) {}

  hasNotebook(): boolean {
    return openNotebook(this.app) !== null;
  }

  async startCluster(shape?: IShape): Promise<void> {
    let wanted = shape;
    if (!wanted) {
      const answer = await showDialog({
        title: this.trans.__('Start a local cluster'),
        body: new ShapeForm(this.model.defaults, this.trans),
        buttons: [Dialog.cancelButton(), Dialog.okButton({ label: this.trans.__('Start') })]
      });
      if (!answer.button.accept || !answer.value) {
        return;
      }
      wanted = answer.value;
    }
    await this.doing(this.trans.__('starting a cluster'), async () => {
      const { name } = await this.model.server.json<{ name: string }>(['clusters'], 'POST', wanted);
      this.model.select({ kind: 'cluster', key: `cluster:${name}` });
    });
  }

  async stopCluster(cluster: ICluster): Promise<void> {
    const name = clusterName(cluster, this.trans);
    const answer = await showDialog({
      title: this.trans.__('Stop cluster %1?', name),
      body: this.trans.__('Its ranks end, and their variables are gone.'),
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: this.trans.__('Stop') })]
    });
    if (answer.button.accept) {
      await this.doing(this.trans.__('stopping %1', name), () => this.model.server.json(['clusters', cluster.name], 'DELETE'));
    }
  }

  async stopSelected(): Promise<void> {
    const { run, cluster, selection } = this.model;
    if (run && !['finished', 'stopped', 'failed'].includes(run.state)) {
      await this.stopRun(run);
    } else if (cluster && selection?.kind !== 'run') {
      await this.stopCluster(cluster);
    }
  }

  async removeWorker(cluster: ICluster, worker: IWorker): Promise<void> {
    const answer = await showDialog({
      title: this.trans.__('Remove worker %1?', worker.name),
      body: worker.ranks.length
        ? this.trans._n(
            'Its process ends, and its rank too; a run there fails.',
            'Its process ends, and its %1 ranks too; a run there fails.',
            worker.ranks.length
          )
        : this.trans.__('Its process ends; the machine can join again.'),
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: this.trans.__('Remove') })]
    });
    if (answer.button.accept) {
      const path = ['clusters', cluster.name, 'workers', worker.key];
      await this.doing(this.trans.__('removing worker %1', worker.name), () => this.model.server.json(path, 'DELETE'));
    }
  }

  async restart(cluster: ICluster, worker: IWorker, rank: IRank): Promise<void> {
    const answer = await showDialog({
      title: this.trans.__('Restart rank %1?', rank.rank),
      body: this.trans.__('A new process takes its place; its variables are gone.'),
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: this.trans.__('Restart') })]
    });
    if (answer.button.accept) {
      const path = ['clusters', cluster.name, 'engines', worker.key, String(rank.slot), 'restart'];
      await this.doing(this.trans.__('restarting rank %1', rank.rank), () => this.model.server.json(path, 'POST'));
    }
  }

  stopRun(run: IRun): Promise<void> {
    const name = short(run.id);
    return this.doing(this.trans.__('stopping run %1', name), () => this.model.server.json(['runs', run.id, 'stop'], 'POST'));
  }

  report(run: IRun): Promise<void> {
    return this.doing(this.trans.__('asking the ranks'), async () => {
      const { text } = await this.model.server.json<{ text: string }>(['runs', run.id, 'report'], 'POST');
      this.model.report = { run: run.id, text };
      this.model.update();
    });
  }

  async reportOn(cluster: ICluster): Promise<void> {
    const run = this.model.picture.runs.find(one => one.id === cluster.run);
    if (run) {
      await this.report(run);
    }
  }

  figure(run: IRun): Promise<void> {
    return this.doing(this.trans.__('drawing'), async () => {
      const address = URL.createObjectURL(await this.model.server.blob(['runs', run.id, 'figure']));
      const image = document.createElement('img');
      image.src = address;
      image.alt = this.trans.__('curves of run %1', short(run.id));
      image.className = 'gpl-figure';
      const body = new Widget({ node: image });
      await showDialog({
        title: this.trans.__('Run %1', run.id),
        body,
        buttons: [Dialog.okButton({ label: this.trans.__('Close') })]
      });
      URL.revokeObjectURL(address);
    });
  }

  attach(run: IRun): Promise<void> {
    return this.insert(attachCell(run.id));
  }

  async openNotebook(path: string): Promise<void> {
    await this.app.commands.execute('docmanager:open', { path });
  }

  insertTraining(): Promise<void> {
    return this.insert(trainingCell(this.model.cluster, this.model.picture.ranks, this.model.defaults));
  }

  insertRanks(cluster: ICluster | null, rank: IRank | null): Promise<void> {
    return this.insert(ranksCell(cluster, rank));
  }

  copy(text: string): void {
    Clipboard.copyToSystem(text);
  }

  private async insert(text: string): Promise<void> {
    if (!(await insertCell(this.app, text))) {
      void showErrorMessage(this.trans.__('No notebook is open'), this.trans.__('Open the notebook that is to get the cell.'));
    }
  }

  /** One thing at a time is shown as being done. */
  private async doing(what: string, action: () => Promise<unknown>): Promise<void> {
    this.model.busy = what;
    this.model.update();
    try {
      await action();
    } catch (error) {
      void showErrorMessage(this.trans.__('This did not work: %1', what), error instanceof Error ? error : String(error));
    } finally {
      this.model.busy = '';
      this.model.update();
    }
  }
}
