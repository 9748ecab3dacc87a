/** A cluster of many ranks: one line per worker, one cell per rank; stronger is more. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import { Icon } from './icons';
import { stateWord } from './labels';
import { HeatValue, PanelModel } from './model';
import { ICluster, IRank } from './protocol';
import { rate, scale, share, whole } from './words';

const COLUMNS = 8;
const SHADES = 5;

export function heatValue(rank: IRank, of: HeatValue): number | null {
  switch (of) {
    case 'cpu':
      return rank.cpu;
    case 'memory':
      return share(rank.memory, rank.machine);
    case 'gpu':
      return share(rank.gpu_memory, rank.gpu_total);
    default:
      return rank.rate;
  }
}

/** Plain values only: a cell is drawn again when its look changes, not with every step of its rank. */
interface ICellProps {
  id: string;
  number: number;
  state: string;
  shade: number;
  detail: string;
  selected: boolean;
  focusable: boolean;
  trans: TranslationBundle;
}

const Cell = React.memo(function Cell({ id, number, state, shade, detail, selected, focusable, trans }: ICellProps) {
  const odd = state !== 'running' && state !== 'idle';
  return (
    <span
      role="gridcell"
      className={`cell ${odd ? 'odd' : `q${shade}`}${selected ? ' sel' : ''}`}
      data-key={id}
      tabIndex={focusable ? 0 : -1}
      aria-label={`${trans.__('rank %1', number)}, ${detail || stateWord(state, trans)}`}
      aria-selected={selected}
    >
      {odd ? <Icon name={state} /> : number}
    </span>
  );
});

function rows(cluster: ICluster): { worker: string; label: boolean; keys: string[] }[] {
  return cluster.workers.flatMap(worker => {
    const lines = [];
    for (let at = 0; at < worker.ranks.length; at += COLUMNS) {
      lines.push({ worker: worker.name, label: at === 0, keys: worker.ranks.slice(at, at + COLUMNS) });
    }
    return lines;
  });
}

export function Heat({ cluster, model, trans }: { cluster: ICluster; model: PanelModel; trans: TranslationBundle }): JSX.Element {
  const { ranks } = model.picture;
  const keys = cluster.workers.flatMap(worker => worker.ranks);
  const values = new Map(keys.map(key => [key, heatValue(ranks[key], model.heat)]));
  const known = [...values.values()].filter((value): value is number => value !== null);
  const [low, high] = scale(known);
  const shade = (value: number | null) =>
    value === null || high === low ? 0 : Math.min(SHADES - 1, Math.floor((SHADES * (value - low)) / (high - low)));
  const states = new Map<string, number>();
  for (const key of keys) {
    states.set(ranks[key].state, (states.get(ranks[key].state) ?? 0) + 1);
  }
  const chosen = model.selection?.kind === 'rank' && values.has(model.selection.key) ? model.selection.key : keys[0];
  const names: Record<HeatValue, string> = {
    rate: trans.__('samples/s'),
    cpu: trans.__('CPU'),
    memory: trans.__('memory'),
    gpu: trans.__('GPU memory')
  };
  const unit = model.heat === 'rate' ? names.rate : '%';
  const step = (event: React.KeyboardEvent) => {
    const by: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: COLUMNS, ArrowUp: -COLUMNS };
    const at = keys.indexOf((event.target as HTMLElement).dataset.key ?? '');
    const to = keys[at + (by[event.key] ?? 0)];
    if (by[event.key] && to !== undefined) {
      event.preventDefault();
      model.select({ kind: 'rank', key: to });
      (event.currentTarget.querySelector(`[data-key="${CSS.escape(to)}"]`) as HTMLElement | null)?.focus();
    }
  };
  return (
    <>
      <div className="gpl-sum">
        {[...states].map(([state, number]) => (
          <span key={state}>
            <Icon name={state} />
            {number} {stateWord(state, trans)}
          </span>
        ))}
      </div>
      <div className="gpl-pick">
        <label>
          {trans.__('show')}{' '}
          <select
            value={model.heat}
            onChange={event => {
              model.heat = event.target.value as HeatValue;
              model.update();
            }}
          >
            {(Object.keys(names) as HeatValue[]).map(name => (
              <option key={name} value={name}>
                {names[name]}
              </option>
            ))}
          </select>
        </label>
        <span className="scale" aria-hidden="true">
          <span>{whole(low)}</span>
          {[0, 1, 2, 3, 4].map(at => (
            <i key={at} className={`q${at}`} />
          ))}
          <span>{whole(high)}</span>
        </span>
      </div>
      <div
        className="gpl-heat"
        role="grid"
        aria-label={trans.__('%1 ranks by worker, stronger is more', keys.length)}
        onKeyDown={step}
        onMouseOver={event => {
          const cell = (event.target as HTMLElement).closest<HTMLElement>('[data-key]');
          const value = values.get(cell?.dataset.key ?? '') ?? null;
          if (cell) {
            cell.title = value === null ? (cell.ariaLabel ?? '') : `${cell.ariaLabel}, ${rate(value)} ${unit}`;
          }
        }}
        onClick={event => {
          const key = (event.target as HTMLElement).closest<HTMLElement>('[data-key]')?.dataset.key;
          if (key) {
            model.select({ kind: 'rank', key });
          }
        }}
      >
        {rows(cluster).map(line => (
          <div key={line.keys[0]} className="row" role="row">
            <span className="lab" role="rowheader">
              {line.label ? line.worker : ''}
            </span>
            {line.keys.map(key => {
              const rank = ranks[key];
              return (
                <Cell
                  key={key}
                  id={key}
                  number={rank.rank}
                  state={rank.state}
                  shade={shade(values.get(key) ?? null)}
                  detail={rank.detail}
                  selected={key === chosen && model.selection?.kind === 'rank'}
                  focusable={key === chosen}
                  trans={trans}
                />
              );
            })}
          </div>
        ))}
      </div>
    </>
  );
}
