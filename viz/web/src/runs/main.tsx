import { render } from 'preact';
import '../shared/session/theme';
import '../style/base.css';
import '../style/chrome.css';
import '../style/panels.css';
import '../style/call.css';
import '../style/runs.css';
import '../style/narrow.css';
import { Runs } from './page';
import { start } from './runs';

render(<Runs />, document.getElementById('app') as HTMLElement);
start();
