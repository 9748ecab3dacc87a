/** Two numbers, nodes and devices, in a dialog. */

import { Dialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import { IShape } from './cells';

const MOST = 64;

export class ShapeForm extends Widget implements Dialog.IBodyWidget<IShape> {
  constructor(start: IShape, trans: TranslationBundle) {
    super();
    this.addClass('gpl-form');
    this.nodes = this.field(trans.__('nodes (workers on this machine)'), start.nodes);
    this.devices = this.field(trans.__('devices (ranks) of each'), start.devices);
  }

  getValue(): IShape {
    return { nodes: this.nodes.valueAsNumber, devices: this.devices.valueAsNumber };
  }

  private field(name: string, value: number): HTMLInputElement {
    const label = document.createElement('label');
    const input = document.createElement('input');
    label.textContent = name;
    Object.assign(input, { type: 'number', min: '1', max: String(MOST), value: String(value), className: 'jp-mod-styled' });
    label.append(input);
    this.node.append(label);
    return input;
  }

  private readonly nodes: HTMLInputElement;
  private readonly devices: HTMLInputElement;
}
