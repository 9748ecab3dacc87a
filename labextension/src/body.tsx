/** The panel from top to bottom: toolbar, clusters, runs, details. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import { IActions } from './actions';
import { Details } from './details';
import { Button } from './icons';
import { isOver, PanelModel } from './model';
import { Empty, Problem } from './notices';
import { count } from './picture';
import { Runs } from './runs';
import { Head, Tree } from './tree';
import { isMany } from './tree_rows';

export interface IBodyProps {
  model: PanelModel;
  actions: IActions;
  trans: TranslationBundle;
}

function Bar({ model, actions, trans }: IBodyProps): JSX.Element {
  const { problem } = model.feed;
  const { ranks, running } = count(model.picture);
  const numbers = ranks ? trans._n('%2 rank, %1 running', '%2 ranks, %1 running', running, ranks) : '';
  const said = model.busy ? `${model.busy} …` : problem ? trans.__('no server') : numbers;
  const canStop = !!(model.run && !isOver(model.run)) || (!!model.cluster && model.cluster.kind !== 'ipyparallel');
  return (
    <div className="bar" role="toolbar" aria-label={trans.__('clusters')}>
      <Button
        className="plain"
        icon="add"
        label={trans.__('start a cluster')}
        disabled={!!problem || !!model.busy}
        onClick={() => void actions.startCluster()}
      />
      <Button
        className="plain"
        icon="stop"
        label={trans.__('stop the selected cluster or run')}
        disabled={!!problem || !canStop}
        onClick={() => void actions.stopSelected()}
      />
      <Button className="plain" icon="refresh" label={trans.__('refresh')} onClick={() => model.feed.refresh()} />
      <Button
        className="plain"
        icon="insert"
        label={trans.__('insert a %%%%gpulayer cell for the selected cluster')}
        disabled={!!problem || !actions.hasNotebook()}
        onClick={() => void actions.insertTraining()}
      />
      <span className="fresh" role="status">
        {said}
      </span>
    </div>
  );
}

function Section({
  name,
  number,
  model,
  children
}: React.PropsWithChildren<{ name: string; number: number; model: PanelModel }>): JSX.Element {
  const key = `section:${name}`;
  const open = !model.folded.has(key);
  return (
    <>
      <button type="button" className="head" aria-expanded={open} onClick={() => model.fold(key, open)}>
        <span className="gpl-tw" />
        {name}
        <span className="cnt">{number}</span>
      </button>
      {open && children}
    </>
  );
}

export function Body(props: IBodyProps): JSX.Element {
  const { model, trans } = props;
  const { picture, problem } = model.feed;
  const blocked = problem && problem.kind !== 'offline' ? problem : null;
  return (
    <>
      <Bar {...props} />
      <div className="scroll">
        {blocked ? (
          <Problem {...props} problem={blocked} />
        ) : !picture ? (
          <div className="gpl-empty muted" role="status">
            {problem ? trans.__('The server does not answer. Trying again …') : trans.__('Connecting …')}
          </div>
        ) : (
          <>
            {picture.clusters.length ? (
              <Section name={trans.__('Clusters')} number={picture.clusters.length} model={model}>
                {picture.clusters.some(cluster => !isMany(picture, cluster.name)) && <Head trans={trans} />}
                <Tree model={model} trans={trans} />
              </Section>
            ) : (
              <Empty {...props} />
            )}
            {picture.runs.length > 0 && (
              <Section name={trans.__('Runs')} number={picture.runs.length} model={model}>
                <Runs {...props} />
              </Section>
            )}
          </>
        )}
      </div>
      {!blocked && picture && <Details {...props} />}
    </>
  );
}
