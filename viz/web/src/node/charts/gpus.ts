import type { NodeChart } from '../model/nodechart';
import type { GpuLane, GpusAnswer } from '../../shared/api/types';

export const gpus: NodeChart<GpusAnswer> = {
  name: 'gpus',
  title: 'GPUs',
  bands: [
    { colour: 'program', text: 'a kernel ran' },
    { colour: 'waited', text: 'a kernel ran, slowed down' },
  ],
  rest: 'no kernel ran',
  isHiddenWhenEmpty: true,
  lanesOf: (answer) =>
    answer.gpus.map((gpu) => ({
      key: String(gpu.gpu),
      name: `GPU ${gpu.gpu}`,
      title: `GPU ${gpu.gpu} (${factsText(gpu)})`,
      shares: [gpu.busy, gpu.throttled],
    })),
};

function factsText(gpu: GpuLane): string {
  const facts = [
    gpu.name,
    gpu.memory_total_bytes > 0 && `at most ${gigabytes(gpu.memory_used_bytes)} of ${gigabytes(gpu.memory_total_bytes)} GB used`,
    gpu.power_w > 0 && `${Math.round(gpu.power_w)} W`,
    gpu.temperature_c > 0 && `at most ${gpu.temperature_c} °C`,
  ];
  return facts.filter((fact) => fact !== false).join(', ');
}

const gigabytes = (bytes: number): string => (bytes / 1e9).toFixed(1);
