/** Requests to the server part. Knows paths and errors, nothing of what is shown. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

const ROOT = 'gpulayer';

export interface IAbout {
  version: string;
  protocol: number;
  max_ranks: number;
}

export class PanelServer {
  constructor(readonly settings: ServerConnection.ISettings) {}

  about(): Promise<IAbout> {
    return this.json(['about']);
  }

  json<T>(path: string[], method = 'GET', body?: object): Promise<T> {
    return this.request(path, method, body).then(response =>
      response.status === 204 ? (undefined as T) : (response.json() as Promise<T>)
    );
  }

  async blob(path: string[]): Promise<Blob> {
    return (await this.request(path, 'GET')).blob();
  }

  /** The stream's address; the token goes along only where Jupyter itself does so. */
  streamUrl(): string {
    const url = URLExt.join(this.settings.wsUrl, ROOT, 'stream');
    return this.settings.appendToken && this.settings.token ? `${url}?token=${encodeURIComponent(this.settings.token)}` : url;
  }

  private async request(path: string[], method: string, body?: object): Promise<Response> {
    const url = URLExt.join(this.settings.baseUrl, ROOT, ...path.map(encodeURIComponent));
    const sent = method === 'GET' ? {} : { body: JSON.stringify(body ?? {}) };
    const response = await ServerConnection.makeRequest(url, { method, ...(method === 'DELETE' ? {} : sent) }, this.settings);
    if (!response.ok) {
      throw await ServerConnection.ResponseError.create(response);
    }
    return response;
  }
}
