/** The side panel's widget: follows the server while it is seen, and only then. */

import { TranslationBundle } from '@jupyterlab/translation';
import { LabIcon, ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import * as React from 'react';
import ranksSvg from '../style/icons/ranks.svg';
import { IActions } from './actions';
import { Body } from './body';
import { PanelModel } from './model';

export const ranksIcon = new LabIcon({ name: 'gpulayer:ranks', svgstr: ranksSvg });
export const PANEL_ID = 'gpulayer-panel';

export class Panel extends ReactWidget {
  constructor(
    private readonly model: PanelModel,
    private readonly actions: IActions,
    private readonly trans: TranslationBundle
  ) {
    super();
    this.id = PANEL_ID;
    this.addClass('gpl');
    this.addClass('gpl-panel');
    this.title.icon = ranksIcon;
    this.title.caption = trans.__('GPU layer: clusters, ranks and runs');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('GPU layer'));
    document.addEventListener('visibilitychange', this.follow);
  }

  dispose(): void {
    document.removeEventListener('visibilitychange', this.follow);
    this.model.feed.stop();
    super.dispose();
  }

  render(): JSX.Element {
    return (
      <UseSignal signal={this.model.changed}>
        {() => <Body model={this.model} actions={this.actions} trans={this.trans} />}
      </UseSignal>
    );
  }

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.follow();
  }

  protected onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.follow();
  }

  protected onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.follow();
  }

  private readonly follow = (): void => {
    if (this.isAttached && this.isVisible && !document.hidden) {
      this.model.feed.start();
    } else {
      this.model.feed.stop();
    }
  };
}
