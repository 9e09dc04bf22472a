import { render } from 'preact';
import './shared/session/theme';
import './style/run.css';
import { start } from './shared/session/session';
import { App } from './app/app';
import { listenToKeys } from './app/keys';
import './app/oldtrees';
import './shared/names/visible';
import { fetchPages } from './app/pages';

fetchPages();
render(<App />, document.getElementById('app') as HTMLElement);
listenToKeys();
start();
