import { render } from 'preact';
import './state/theme';
import './style/base.css';
import './style/chrome.css';
import './style/panels.css';
import './style/menu.css';
import './style/function.css';
import './style/overview.css';
import './style/compare.css';
import './style/jobs.css';
import './style/health.css';
import './style/calls.css';
import { start } from './state/session';
import { App } from './views/app';
import { listenToKeys } from './views/frame/keys';

render(<App />, document.getElementById('app') as HTMLElement);
listenToKeys();
start();
