/** What the panel says when there is nothing to show: no cluster, no server part, another release. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import { IActions } from './actions';
import { trainingCell } from './cells';
import { IProblem } from './feed';
import { Button, Icon } from './icons';
import { PanelModel } from './model';

const ENABLE = 'jupyter server extension enable gpulayer_nb';

interface INoticeProps {
  model: PanelModel;
  actions: IActions;
  trans: TranslationBundle;
}

export function Empty({ model, actions, trans }: INoticeProps): JSX.Element {
  const line = trainingCell(null, {}, model.defaults).trim();
  return (
    <div className="gpl-empty">
      <h3>
        <Icon name="idle" />
        {trans.__('No cluster is running.')}
      </h3>
      <p>{trans.__('A training cell starts one on this machine by itself, in a few seconds:')}</p>
      <div className="gpl-line">
        <code>{line}</code>
        <Button
          className="plain"
          icon="insert"
          label={trans.__('insert this line as a cell')}
          disabled={!actions.hasNotebook()}
          onClick={() => void actions.insertTraining()}
        />
      </div>
      <p>{trans.__('One that several notebooks can use:')}</p>
      <p>
        <Button
          className="main"
          text={trans.__('Start a local cluster')}
          disabled={!!model.busy}
          onClick={() => void actions.startCluster()}
        />
      </p>
    </div>
  );
}

export function Problem({ problem, model, actions, trans }: INoticeProps & { problem: IProblem }): JSX.Element {
  const missing = problem.kind === 'missing';
  const title = missing
    ? trans.__('The server part of gpulayer_nb does not answer.')
    : trans.__('The server part of gpulayer_nb is of another release (%1).', problem.detail);
  return (
    <div className="gpl-empty" role="alert">
      <h3>
        <Icon name="warning" />
        {title}
      </h3>
      <p>{trans.__('The panel cannot see clusters without it. Training cells work as before.')}</p>
      {missing ? (
        <>
          <p>{trans.__('Next: run this in a terminal, then restart JupyterLab:')}</p>
          <div className="gpl-line">
            <code>{ENABLE}</code>
            <Button className="plain" icon="copy" label={trans.__('copy')} onClick={() => actions.copy(ENABLE)} />
          </div>
        </>
      ) : (
        <p>{trans.__('Next: restart JupyterLab, then reload this page.')}</p>
      )}
      <p>
        <Button text={trans.__('Check again')} onClick={() => model.feed.refresh()} />
      </p>
      <p className="muted">{problem.detail}</p>
    </div>
  );
}
