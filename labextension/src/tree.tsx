/** Clusters, workers and ranks as a tree: arrow keys move, Enter shows details. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import { Heat } from './heat';
import { Icon } from './icons';
import { clusterName, clusterPlace, clusterWord, workerOffers } from './labels';
import { PanelModel } from './model';
import { ICluster, IWorker } from './protocol';
import { RankRow } from './rank_row';
import { clusterKey, isMany, ITreeRow, move, treeRows, workerKey } from './tree_rows';

interface IRowProps {
  row: ITreeRow;
  selected: boolean;
  focusable: boolean;
  trans: TranslationBundle;
}

function ClusterRow({ row, cluster, selected, focusable, trans }: IRowProps & { cluster: ICluster }): JSX.Element {
  return (
    <div
      role="treeitem"
      aria-level={1}
      aria-expanded={row.open ?? undefined}
      aria-selected={selected}
      data-key={row.key}
      className="gpl-cl"
      tabIndex={focusable ? 0 : -1}
      title={cluster.notebook ?? cluster.name}
    >
      <span className="gpl-tw" />
      <Icon name={cluster.state} />
      <span className="hidden">{trans.__('cluster')} </span>
      <b>{clusterName(cluster, trans)}</b>
      <span className="muted">{clusterWord(cluster, trans)}</span>
      <span className={cluster.kind === 'embedded' ? 'end muted wide' : 'end muted'}>{clusterPlace(cluster, trans)}</span>
    </div>
  );
}

function WorkerRow({ row, worker, selected, focusable, trans }: IRowProps & { worker: IWorker }): JSX.Element {
  return (
    <div
      role="treeitem"
      aria-level={2}
      aria-expanded={row.open ?? undefined}
      aria-selected={selected}
      data-key={row.key}
      className="gpl-wk"
      tabIndex={focusable ? 0 : -1}
    >
      <span className="gpl-tw" />
      <b>
        <span className="hidden">{trans.__('worker')} </span>
        {worker.name}
      </b>
      <span className="end muted">{workerOffers(worker, trans)}</span>
      <span className="sub muted" title={worker.facts}>
        {worker.facts}
      </span>
    </div>
  );
}

export function Head({ trans }: { trans: TranslationBundle }): JSX.Element {
  return (
    <div className="gpl-rk hd" aria-hidden="true">
      <span className="d wide">{trans.__('device')}</span>
      <span className="s wide">{trans.__('state')}</span>
      <span className="a">{trans.__('step')}</span>
      <span className="b">{trans.__('samples/s')}</span>
      <span className="gpl-m c">{trans.__('cpu')}</span>
      <span className="gpl-m m">{trans.__('mem')}</span>
      <span className="gpl-m g">{trans.__('gpu')}</span>
    </div>
  );
}

export function Tree({ model, trans }: { model: PanelModel; trans: TranslationBundle }): JSX.Element {
  const { picture } = model;
  const rows = treeRows(picture, model.folded);
  const chosen = model.selection?.key ?? null;
  const focused = rows.some(row => row.key === chosen) ? chosen : (rows[0]?.key ?? null);
  const choose = (row: ITreeRow) => model.select({ kind: row.kind, key: row.key });

  const onKeyDown = (event: React.KeyboardEvent<HTMLDivElement>) => {
    const from = (event.target as HTMLElement).closest<HTMLElement>('[role=treeitem]')?.dataset.key ?? null;
    const to = move(rows, from, event.key);
    if (!to) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    if (to.fold !== undefined) {
      model.fold(to.to, to.fold);
    }
    const row = rows.find(one => one.key === to.to);
    if (row) {
      choose(row);
    }
    event.currentTarget.querySelector<HTMLElement>(`[data-key="${CSS.escape(to.to)}"]`)?.focus();
  };

  const onClick = (event: React.MouseEvent) => {
    const item = (event.target as HTMLElement).closest<HTMLElement>('[role=treeitem]');
    const row = rows.find(one => one.key === item?.dataset.key);
    if (row) {
      if ((event.target as HTMLElement).classList.contains('gpl-tw') && row.open !== null) {
        model.fold(row.key, row.open);
      }
      choose(row);
    }
  };

  const onDoubleClick = (event: React.MouseEvent) => {
    const key = (event.target as HTMLElement).closest<HTMLElement>('[role=treeitem]')?.dataset.key;
    const row = rows.find(one => one.key === key);
    if (row && row.open !== null) {
      model.fold(row.key, row.open);
    }
  };

  const many = picture.clusters.filter(one => isMany(picture, one.name) && !model.folded.has(clusterKey(one.name)));
  return (
    <>
      <div
        role="tree"
        aria-label={trans.__('clusters, workers and ranks')}
        onKeyDown={onKeyDown}
        onClick={onClick}
        onDoubleClick={onDoubleClick}
      >
        {rows.map(row => {
          const common = { row, selected: row.key === chosen, focusable: row.key === focused, trans };
          const cluster = picture.clusters.find(one => one.name === row.cluster);
          if (!cluster) {
            return null;
          }
          if (row.kind === 'cluster') {
            return <ClusterRow key={row.key} {...common} cluster={cluster} />;
          }
          if (row.kind === 'worker') {
            const worker = cluster.workers.find(one => workerKey(cluster.name, one.key) === row.key);
            return worker ? <WorkerRow key={row.key} {...common} worker={worker} /> : null;
          }
          const rank = picture.ranks[row.key];
          return rank ? (
            <RankRow
              key={row.key}
              id={row.key}
              rank={rank}
              selected={common.selected}
              focusable={common.focusable}
              trans={trans}
            />
          ) : null;
        })}
      </div>
      {many.map(cluster => (
        <Heat key={cluster.name} cluster={cluster} model={model} trans={trans} />
      ))}
    </>
  );
}
