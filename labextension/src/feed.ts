/** Keeps the picture up to date while the panel is seen: a websocket, and polling where there can be none. Silent otherwise. */

import { ServerConnection } from '@jupyterlab/services';
import { Poll } from '@lumino/polling';
import { ISignal, Signal } from '@lumino/signaling';
import { apply, IPicture, NOTHING } from './picture';
import { IWhole, Message, PROTOCOL } from './protocol';
import { PanelServer } from './server';

/** Why there is no picture: no answer from the server part, or one of another release. */
export interface IProblem {
  kind: 'missing' | 'old' | 'offline';
  detail: string;
}

const RETRY_MILLISECONDS = 1000;

export class Feed {
  constructor(private readonly server: PanelServer) {
    this.poll = new Poll({
      name: 'gpulayer:snapshot',
      factory: () => this.ask(),
      frequency: { interval: 5000, backoff: true, max: 60000 },
      standby: () => (this.socket || !this.started ? true : 'when-hidden')
    });
  }

  get picture(): IPicture | null {
    return this.shown;
  }

  get problem(): IProblem | null {
    return this.trouble;
  }

  get changed(): ISignal<this, void> {
    return this.signal;
  }

  set pollSeconds(seconds: number) {
    this.poll.frequency = { interval: seconds * 1000, backoff: true, max: 60000 };
  }

  start(): void {
    if (!this.started) {
      this.started = true;
      void this.poll.refresh();
    }
  }

  /** Out of sight: the server stops its work too. */
  stop(): void {
    this.started = false;
    this.disconnect();
  }

  refresh(): void {
    this.disconnect();
    this.started = true;
    void this.poll.refresh();
  }

  private disconnect(): void {
    const { socket } = this;
    this.socket = null;
    socket?.close();
  }

  private async ask(): Promise<void> {
    if (this.socket) {
      return;
    }
    try {
      if (this.shown === null) {
        const about = await this.server.about();
        if (about.protocol !== PROTOCOL) {
          this.say({ kind: 'old', detail: about.version });
          return;
        }
      }
      this.take(await this.server.json<IWhole>(['snapshot']));
      this.connect();
    } catch (error) {
      this.say(problemOf(error));
      throw error;
    }
  }

  private connect(): void {
    if (this.socket || !this.started) {
      return;
    }
    const socket = new this.server.settings.WebSocket(this.server.streamUrl());
    this.socket = socket;
    socket.onmessage = event => this.take(JSON.parse(event.data as string) as Message);
    socket.onclose = () => {
      if (this.socket !== socket) {
        return; // closed by us
      }
      this.socket = null;
      if (this.started) {
        void this.poll.schedule({ phase: 'reconnected', interval: RETRY_MILLISECONDS });
      }
    };
  }

  private take(message: Message): void {
    this.shown = apply(this.shown ?? NOTHING, message);
    this.trouble = null;
    this.signal.emit();
  }

  private say(problem: IProblem): void {
    this.trouble = problem;
    if (problem.kind !== 'offline') {
      this.shown = null;
    }
    this.signal.emit();
  }

  private readonly signal = new Signal<this, void>(this);
  private readonly poll: Poll;
  private shown: IPicture | null = null;
  private trouble: IProblem | null = null;
  private started = false;
  private socket: WebSocket | null = null;
}

function problemOf(error: unknown): IProblem {
  if (error instanceof ServerConnection.ResponseError) {
    const path = new URL(error.response.url).pathname;
    return { kind: 'missing', detail: `GET ${path}: ${error.response.status}` };
  }
  return { kind: 'offline', detail: String(error) };
}
