/** Commands, so that everything in the panel can be done from the palette, menus and shortcuts. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { addIcon, codeIcon, copyIcon, stopIcon } from '@jupyterlab/ui-components';
import { IActions } from './actions';
import { isOver, PanelModel } from './model';
import { PANEL_ID, ranksIcon } from './panel';

export function addCommands(
  app: JupyterFrontEnd,
  model: PanelModel,
  actions: IActions,
  palette: ICommandPalette | null,
  trans: TranslationBundle
): void {
  const { commands } = app;
  const none = { args: { type: 'object' as const, properties: {} } };
  const add = (id: string, options: Parameters<typeof commands.addCommand>[1]) => {
    commands.addCommand(id, { describedBy: none, ...options });
    palette?.addItem({ command: id, category: trans.__('GPU layer') });
  };

  add('gpulayer:open', {
    label: trans.__('Show clusters, ranks and runs'),
    icon: ranksIcon,
    execute: () => app.shell.activateById(PANEL_ID)
  });
  add('gpulayer:start-cluster', {
    label: trans.__('Start a local cluster'),
    icon: addIcon,
    describedBy: {
      args: { type: 'object', properties: { nodes: { type: 'integer', minimum: 1 }, devices: { type: 'integer', minimum: 1 } } }
    },
    execute: args => {
      const { nodes, devices } = args;
      const shape = typeof nodes === 'number' && typeof devices === 'number' ? { nodes, devices } : undefined;
      return actions.startCluster(shape);
    }
  });
  add('gpulayer:stop', {
    label: trans.__('Stop the selected run or cluster'),
    icon: stopIcon,
    isEnabled: () => !!model.run || !!model.cluster,
    execute: () => actions.stopSelected()
  });
  add('gpulayer:report', {
    label: trans.__('Who waits for whom in the selected run'),
    isEnabled: () => !!model.run && !isOver(model.run),
    execute: async () => {
      if (model.run) {
        await actions.report(model.run);
      }
    }
  });
  add('gpulayer:insert-training-cell', {
    label: trans.__('Insert a %%%%gpulayer cell'),
    icon: codeIcon,
    isEnabled: () => actions.hasNotebook(),
    execute: () => actions.insertTraining()
  });
  add('gpulayer:insert-ranks-cell', {
    label: trans.__('Insert a %%%%ranks cell'),
    icon: codeIcon,
    isEnabled: () => actions.hasNotebook(),
    execute: () => actions.insertRanks(model.cluster, model.rank)
  });
  add('gpulayer:copy-worker-command', {
    label: trans.__('Copy the command that adds a worker'),
    icon: copyIcon,
    isEnabled: () => !!model.cluster?.join,
    execute: () => actions.copy(model.cluster?.join ?? '')
  });
  const changing = ['gpulayer:stop', 'gpulayer:report', 'gpulayer:copy-worker-command'];
  let before = '';
  model.changed.connect(() => {
    const now = changing.map(id => commands.isEnabled(id)).join();
    if (now !== before) {
      before = now; // menus and palette draw themselves again, so only when there is a reason
      changing.forEach(id => commands.notifyCommandChanged(id));
    }
  });
}
