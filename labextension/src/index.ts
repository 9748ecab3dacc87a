/** The plugin: commands, palette, status bar, settings, and the panel in a sidebar. Everything but the shell is optional. */

import { ILabShell, ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Actions } from './actions';
import { addCommands } from './commands';
import { Feed } from './feed';
import { PanelModel } from './model';
import { Panel, PANEL_ID } from './panel';
import { PanelServer } from './server';
import { applySettings } from './settings';
import { statusItem } from './status';

const ID = 'gpulayer-nb:plugin';

const plugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Clusters, workers, ranks and runs in a sidebar.',
  autoStart: true,
  optional: [ILabShell, ISettingRegistry, ICommandPalette, IStatusBar, ITranslator, ILayoutRestorer],
  activate: async (
    app: JupyterFrontEnd,
    labShell: ILabShell | null,
    registry: ISettingRegistry | null,
    palette: ICommandPalette | null,
    statusBar: IStatusBar | null,
    translator: ITranslator | null,
    restorer: ILayoutRestorer | null
  ) => {
    const trans = (translator ?? nullTranslator).load('gpulayer_nb');
    const server = new PanelServer(app.serviceManager.serverSettings);
    const model = new PanelModel(server, new Feed(server));
    const actions = new Actions(app, model, trans);
    const area = registry ? await applySettings(registry, ID, model) : 'right';
    addCommands(app, model, actions, palette, trans);

    const panel = new Panel(model, actions, trans);
    app.shell.add(panel, labShell ? area : 'right', { rank: 600, type: 'GPU layer' });
    restorer?.add(panel, PANEL_ID);
    labShell?.currentChanged.connect(() => model.update()); // a notebook came or went: buttons change
    if (statusBar) {
      const open = () => void app.commands.execute('gpulayer:open');
      statusBar.registerStatusItem('gpulayer-nb:status', { item: statusItem(model, open, trans), align: 'left', rank: 200 });
    }
  }
};

export default plugin;
