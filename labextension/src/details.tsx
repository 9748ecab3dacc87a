/** What is known of the selected row, its last lines of output, and what can be done with it. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import { IActions } from './actions';
import { Button, Icon } from './icons';
import { clusterName, clusterWord, rankFacts, stateWord, workerOffers } from './labels';
import { PanelModel } from './model';
import { ICluster, IRank, IWorker } from './protocol';
import { workerKey } from './tree_rows';
import { short } from './words';

const LOG_MILLISECONDS = 2000;

interface IDetailsProps {
  model: PanelModel;
  actions: IActions;
  trans: TranslationBundle;
}

/** The last lines of an engine's output, read again while they are seen. */
function useLog(model: PanelModel, cluster: string, worker: string, slot: number): string {
  const [text, setText] = React.useState('');
  React.useEffect(() => {
    let gone = false;
    setText('');
    const read = async () => {
      try {
        const found = await model.server.json<{ lines: string[] }>(['clusters', cluster, 'engines', worker, String(slot), 'log']);
        if (!gone) {
          setText(found.lines.join('\n'));
        }
      } catch {
        // the engine or the cluster has just gone: the row above says so
      }
    };
    void read();
    const timer = window.setInterval(() => {
      if (!document.hidden) {
        void read();
      }
    }, LOG_MILLISECONDS);
    return () => {
      gone = true;
      window.clearInterval(timer);
    };
  }, [model, cluster, worker, slot]);
  return text;
}

/** Stays at its end while the reader is there. */
function Log({ text, label }: { text: string; label: string }): JSX.Element {
  const element = React.useRef<HTMLPreElement>(null);
  const atEnd = React.useRef(true);
  React.useLayoutEffect(() => {
    if (element.current && atEnd.current) {
      element.current.scrollTop = element.current.scrollHeight;
    }
  }, [text]);
  return (
    <pre
      ref={element}
      tabIndex={0}
      role="log"
      aria-label={label}
      onScroll={event => {
        const at = event.currentTarget;
        atEnd.current = at.scrollTop + at.clientHeight > at.scrollHeight - 4;
      }}
    >
      {text}
    </pre>
  );
}

function Top({
  icon,
  title,
  place,
  model,
  trans
}: {
  icon: string;
  title: string;
  place: string;
  model: PanelModel;
  trans: TranslationBundle;
}): JSX.Element {
  return (
    <div className="top">
      <Icon name={icon} label={stateWord(icon, trans)} />
      <b>{title}</b>
      <span className="muted">{place}</span>
      <Button className="plain end" icon="close" label={trans.__('close details')} onClick={() => model.select(null)} />
    </div>
  );
}

function RankDetails({
  model,
  actions,
  trans,
  rank,
  cluster,
  worker
}: IDetailsProps & { rank: IRank; cluster: ICluster; worker: IWorker }): JSX.Element {
  const text = useLog(model, cluster.name, worker.key, rank.slot);
  const name = clusterName(cluster, trans);
  const place = cluster.run ? trans.__('%1, run %2', name, short(cluster.run)) : name;
  return (
    <section className="gpl-det" aria-label={trans.__('selected: rank %1', rank.rank)}>
      <Top icon={rank.state} title={trans.__('Rank %1', rank.rank)} place={place} model={model} trans={trans} />
      <dl>
        {rankFacts(rank, worker.name, trans).map(([term, value]) => (
          <React.Fragment key={term}>
            <dt>{term}</dt>
            <dd>{value}</dd>
          </React.Fragment>
        ))}
      </dl>
      <div className="acts">
        {cluster.kind !== 'ipyparallel' && (
          <Button
            className="sm"
            text={trans.__('Restart')}
            label={trans.__('a new process; its variables are gone')}
            onClick={() => actions.restart(cluster, worker, rank)}
          />
        )}
        {model.run && cluster.run && (
          <Button className="sm" text={trans.__('Who is stuck?')} onClick={() => actions.reportOn(cluster)} />
        )}
        {actions.hasNotebook() && (
          <Button
            className="sm"
            icon="insert"
            text={`%%ranks ${rank.rank}`}
            label={trans.__('insert a cell for this rank')}
            onClick={() => actions.insertRanks(cluster, rank)}
          />
        )}
      </div>
      <Log text={text} label={trans.__('last lines of rank %1', rank.rank)} />
    </section>
  );
}

function AddWorker({ cluster, actions, trans }: Omit<IDetailsProps, 'model'> & { cluster: ICluster }): JSX.Element {
  return (
    <Button
      className="sm"
      icon="copy"
      text={trans.__('Add a worker')}
      label={trans.__('copy the command for another machine: %1', cluster.join)}
      onClick={() => actions.copy(cluster.join)}
    />
  );
}

function ClusterDetails({ model, actions, trans, cluster }: IDetailsProps & { cluster: ICluster }): JSX.Element {
  const name = clusterName(cluster, trans);
  const kinds: Record<string, string> = {
    embedded: trans.__('of a notebook’s kernel; it ends with it'),
    open: trans.__('any notebook can use it: --target %1', cluster.name),
    ipyparallel: trans.__('started by ipyparallel')
  };
  return (
    <section className="gpl-det" aria-label={trans.__('selected: cluster %1', name)}>
      <Top icon={cluster.state} title={name} place={clusterWord(cluster, trans)} model={model} trans={trans} />
      <dl>
        <dt>{trans.__('name')}</dt>
        <dd>{cluster.name}</dd>
        <dt>{trans.__('kind')}</dt>
        <dd>{kinds[cluster.kind]}</dd>
        {cluster.notebook && (
          <>
            <dt>{trans.__('notebook')}</dt>
            <dd>{cluster.notebook}</dd>
          </>
        )}
      </dl>
      <div className="acts">
        {actions.hasNotebook() && (
          <Button
            className="sm"
            icon="insert"
            text="%%gpulayer"
            label={trans.__('insert a training cell for this cluster')}
            onClick={() => actions.insertTraining()}
          />
        )}
        {cluster.join && <AddWorker cluster={cluster} actions={actions} trans={trans} />}
        {cluster.kind !== 'ipyparallel' && (
          <Button
            className="sm"
            icon="stop"
            text={trans.__('Stop')}
            label={trans.__('stop this cluster')}
            onClick={() => actions.stopCluster(cluster)}
          />
        )}
      </div>
    </section>
  );
}

function WorkerDetails({
  model,
  actions,
  trans,
  cluster,
  worker
}: IDetailsProps & { cluster: ICluster; worker: IWorker }): JSX.Element {
  const name = clusterName(cluster, trans);
  return (
    <section className="gpl-det" aria-label={trans.__('selected: worker %1', worker.name)}>
      <Top icon={cluster.state} title={trans.__('Worker %1', worker.name)} place={name} model={model} trans={trans} />
      <dl>
        <dt>{trans.__('offers')}</dt>
        <dd>{workerOffers(worker, trans)}</dd>
        <dt>{trans.__('has')}</dt>
        <dd>{worker.facts}</dd>
      </dl>
      <div className="acts">
        {cluster.join && (
          <>
            <Button
              className="sm"
              icon="stop"
              text={trans.__('Remove')}
              label={trans.__('take this worker out of the cluster')}
              onClick={() => actions.removeWorker(cluster, worker)}
            />
            <AddWorker cluster={cluster} actions={actions} trans={trans} />
          </>
        )}
      </div>
    </section>
  );
}

export function Details(props: IDetailsProps): JSX.Element | null {
  const { model, trans } = props;
  const { cluster, rank, report, selection } = model;
  if (report) {
    return (
      <section className="gpl-det" aria-label={trans.__('who waits for whom in run %1', short(report.run))}>
        <div className="top">
          <b>{trans.__('Who waits for whom')}</b>
          <span className="muted">{trans.__('run %1', short(report.run))}</span>
          <Button
            className="plain end"
            icon="close"
            label={trans.__('close details')}
            onClick={() => {
              model.report = null;
              model.update();
            }}
          />
        </div>
        <pre tabIndex={0} role="status">
          {report.text}
        </pre>
      </section>
    );
  }
  if (!cluster || !selection || selection.kind === 'run') {
    return null;
  }
  if (rank) {
    const worker = cluster.workers.find(one => one.ranks.includes(selection.key));
    return worker ? <RankDetails {...props} key={selection.key} rank={rank} cluster={cluster} worker={worker} /> : null;
  }
  const worker = cluster.workers.find(one => workerKey(cluster.name, one.key) === selection.key);
  if (worker) {
    return <WorkerDetails {...props} cluster={cluster} worker={worker} />;
  }
  return selection.kind === 'rank' ? null : <ClusterDetails {...props} cluster={cluster} />;
}
