/** Reads the user's settings into the model, now and whenever they change. */

import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { PanelModel } from './model';

export type Area = 'left' | 'right';

/** Returns the sidebar to stand in; a change of it holds from the next page on. */
export async function applySettings(registry: ISettingRegistry, id: string, model: PanelModel): Promise<Area> {
  try {
    const settings = await registry.load(id);
    const read = () => {
      model.defaults = { nodes: settings.get('nodes').composite as number, devices: settings.get('devices').composite as number };
      model.feed.pollSeconds = settings.get('pollSeconds').composite as number;
      model.update();
    };
    read();
    settings.changed.connect(read);
    return settings.get('area').composite as Area;
  } catch (error) {
    console.warn('gpulayer_nb: the settings cannot be read', error);
    return 'right';
  }
}
