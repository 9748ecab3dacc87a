/** The newest runs of this machine; the selected one has its buttons. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import { IActions } from './actions';
import { Button, Icon } from './icons';
import { progress, runLine, runPlace, runTime } from './labels';
import { isOver, PanelModel } from './model';
import { IRun } from './protocol';
import { Spark } from './rank_row';
import { short } from './words';

interface IRunRowProps {
  run: IRun;
  selected: boolean;
  now: number;
  actions: IActions;
  onSelect: (id: string) => void;
  trans: TranslationBundle;
}

const RunRow = React.memo(function RunRow({ run, selected, now, actions, onSelect, trans }: IRunRowProps) {
  const done = isOver(run) ? null : progress(run);
  const part = done === null ? 0 : Math.round(100 * done);
  return (
    <li className={selected ? 'on' : undefined}>
      <Icon name={run.state} />
      <button type="button" className="name" aria-current={selected || undefined} onClick={() => onSelect(run.id)} title={run.id}>
        <b>{short(run.id)}</b> <span className="muted">{runPlace(run, trans)}</span>
      </button>
      <span className="time muted">{runTime(run, now, trans)}</span>
      <div className="sub">
        {done !== null && (
          <span
            className="prog"
            role="progressbar"
            aria-label={trans.__('progress')}
            aria-valuemin={0}
            aria-valuemax={100}
            aria-valuenow={part}
          >
            <i style={{ width: `${part}%` }} />
          </span>
        )}
        <span className="words" title={runLine(run, trans)}>
          {runLine(run, trans)}
        </span>
      </div>
      {run.curve.length > 1 && (
        <span className="curve" role="img" aria-label={trans.__('%1 so far', run.metric ?? '')} title={run.metric ?? ''}>
          <Spark values={run.curve} />
        </span>
      )}
      {selected && (
        <div className="acts">
          {!isOver(run) && (
            <Button
              className="sm"
              icon="stop"
              text={run.stops ? trans.__('Stop now') : trans.__('Stop')}
              label={
                run.stops ? trans.__('one stage harder: does not wait for the step') : trans.__('stop after the step in hand')
              }
              onClick={() => actions.stopRun(run)}
            />
          )}
          {!isOver(run) && <Button className="sm" text={trans.__('Who is stuck?')} onClick={() => actions.report(run)} />}
          {run.step !== null || isOver(run) ? (
            <Button className="sm" icon="open" text={trans.__('Figure')} onClick={() => actions.figure(run)} />
          ) : null}
          {actions.hasNotebook() && (
            <Button
              className="sm"
              icon="insert"
              text={trans.__('Attach')}
              label={trans.__('attach in a new cell')}
              onClick={() => actions.attach(run)}
            />
          )}
          {run.notebook && (
            <Button
              className="sm"
              icon="open"
              text={trans.__('Notebook')}
              onClick={() => actions.openNotebook(run.notebook ?? '')}
            />
          )}
        </div>
      )}
    </li>
  );
});

interface IRunsProps {
  model: PanelModel;
  actions: IActions;
  trans: TranslationBundle;
}

export function Runs({ model, actions, trans }: IRunsProps): JSX.Element {
  const chosen = model.selection?.kind === 'run' ? model.selection.key : null;
  const now = Math.floor(Date.now() / 1000);
  const onSelect = React.useCallback((id: string) => model.select({ kind: 'run', key: id }), [model]);
  return (
    <ul className="gpl-runs" aria-label={trans.__('runs')}>
      {model.picture.runs.map(run => (
        <RunRow
          key={run.id}
          run={run}
          selected={run.id === chosen}
          now={isOver(run) ? 0 : now}
          actions={actions}
          onSelect={onSelect}
          trans={trans}
        />
      ))}
    </ul>
  );
}
