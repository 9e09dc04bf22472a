import { render } from 'preact';
import '../shared/session/theme';
import '../style/runs.css';
import '../shared/names/visible';
import { Runs } from './page';
import { start } from './runs';

render(<Runs />, document.getElementById('app') as HTMLElement);
start();
