/** The item in the status bar: how many ranks run, as far as the open panel knows; a click opens it. */

import { TextItem } from '@jupyterlab/statusbar';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import * as React from 'react';
import { PanelModel } from './model';
import { count } from './picture';

export function statusItem(model: PanelModel, open: () => void, trans: TranslationBundle): ReactWidget {
  const item = ReactWidget.create(
    <UseSignal signal={model.changed}>
      {() => {
        const { ranks, running } = count(model.picture);
        const text = ranks ? trans.__('ranks %1/%2', running, ranks) : trans.__('ranks');
        return (
          <TextItem
            source={text}
            role="button"
            tabIndex={0}
            title={
              ranks ? trans.__('GPU layer: %1 of %2 ranks are at work', running, ranks) : trans.__('GPU layer: open the panel')
            }
            onClick={open}
            onKeyDown={event => {
              if (event.key === 'Enter' || event.key === ' ') {
                event.preventDefault();
                open();
              }
            }}
          />
        );
      }}
    </UseSignal>
  );
  item.addClass('jp-mod-highlighted');
  return item;
}
