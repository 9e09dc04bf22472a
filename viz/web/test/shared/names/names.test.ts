import { describe, expect, test } from 'vitest';
import { placedName, shorten, shortenAll, shownName } from '../../../src/shared/names/names';
import shownNames from './shownnames.json';

const KERNEL =
  'void Kokkos::Impl::cuda_parallel_launch_local_memory<Kokkos::Impl::ParallelFor<electron_push(int, ' +
  'Grid<Device> const&)::{lambda(int)#1}, Kokkos::RangePolicy<Kokkos::Cuda, void>, Kokkos::Cuda> >' +
  '(Kokkos::Impl::ParallelFor<electron_push(int, Grid<Device> const&)::{lambda(int)#1}, Kokkos::Cuda>)';

describe('one name', () => {
  test.each([
    ['relax_block [{heat2d.c} {47,0}]', 'relax_block'],
    ['MPI_Allreduce()', 'MPI_Allreduce'],
    ['MPI Collective Sync', 'MPI Collective Sync'],
    ['.TAU application', '(program)'],
    ['load [{etl.py}{2}]', 'etl.load'],
    ['Assembler.assemble_everything [{assembly_of_grids.py}{2}]', 'assemble_everything'],
    ['addr=<559bb3460262> [{hello} {0,0}]', 'addr=<559bb3460262>'],
    ['Memory copy Host to Device', 'Memory copy Host to Device'],
    ['ipc1:copy_ptl_to_host', 'ipc1:copy_ptl_to_host'],
    ['std::vector<double> solve(std::vector<double> const&, int)', 'solve'],
    ['double (anonymous namespace)::norm(double*) const', 'norm'],
    ['void Field::operator()(int, int) const', 'Field::operator()'],
    ['bool operator<(Key const&, Key const&)', 'operator<'],
    ['void Mesh<3, double>::refine(int) [clone .isra.0]', 'Mesh<…>::refine'],
    [KERNEL, 'electron_push λ1'],
    [`cudaLaunchKernel: ${KERNEL}`, 'electron_push λ1'],
    ['void RAJA::policy::cuda::impl::forall_cuda_kernel<256ul, It, advance(double)::{lambda(int)#6}, int>(It)', 'advance λ6'],
    ['Kokkos::parallel_for sort_particles [device=0]', 'sort_particles'],
  ])('%s', (full, text) => {
    const short = shorten(full);
    expect(short.text).toBe(text);
    expect(short.full).toBe(full);
  });

  test.each(Object.entries(shownNames))('%s is shown as by the command line', (full, shown) => {
    expect(shownName(full)).toBe(shown);
  });

  test('the whole name has its place behind it', () => {
    expect(placedName('load [{src/etl.py}{2}]')).toBe('etl.load (etl.py:2)');
    expect(placedName('step [solver.c]')).toBe('step (solver.c)');
    expect(placedName('MPI_Wait()')).toBe('MPI_Wait()');
    expect(placedName('addr=<55> [{hello} {0,0}]')).toBe('addr=<55> [{hello} {0,0}]');
  });

  test('location becomes a field', () => {
    expect(shorten('MD_FINIT [{src/md_main.F} {2141,7}-{2245,9}]')).toMatchObject({ text: 'MD_FINIT', file: 'md_main.F', line: '2141' });
  });

  test('a launch and a thread are tagged', () => {
    expect(shorten(`cudaLaunchKernel: ${KERNEL}`).tag).toBe('launch');
    expect(shorten('[PTHREAD] worker [{threads.c} {22, 0}]')).toMatchObject({ text: 'worker', tag: 'thread' });
  });

  test('too long: namespaces go, then the middle, the tail twice as long as the head', () => {
    expect(shorten('alpha::beta::gamma::evaluate_residual_norm', 24).text).toBe('evaluate_residual_norm');
    const cut = shorten('compute_the_electrostatic_potential_on_every_grid_point', 24).text;
    expect(cut).toHaveLength(24);
    expect(cut).toBe('compute…every_grid_point');
  });

  test('a cut name keeps its lambda', () => {
    const short = shorten('an_extremely_long_function_that_owns_a_lambda(int)::{lambda(int)#12}', 24);
    expect(short.text).toMatch(/^an_.*… ?.* λ12$/);
    expect(short.text.length).toBeLessThanOrEqual(24);
  });

  test('unbalanced brackets do not stop it', () => {
    expect(shorten('f<<<(((').text).toBe('f<…>');
    expect(shorten('').text).toBe('');
  });
});

test('a kernel name of 2,500 characters comes down to its owner', () => {
  const nested = KERNEL.replaceAll('Grid<Device>', `Grid<${'Policy<Deep<Nested>>, '.repeat(50)}int>`);
  expect(nested.length).toBeGreaterThan(2000);
  expect(shorten(nested, 24).text).toBe('electron_push λ1');
});

describe('names of one view', () => {
  test('equal results show their first differing argument', () => {
    const names = ['void fill<double>(int)', 'void fill<float>(int)', 'pack()'];
    const short = shortenAll(names);
    expect(short.get(names[0] as string)?.text).toBe('fill<…> ‹double›');
    expect(short.get(names[1] as string)?.text).toBe('fill<…> ‹float›');
    expect(short.get(names[2] as string)?.text).toBe('pack');
  });

  test('one function at two places shows the line', () => {
    const names = ['wait [{a.f90} {10,1}]', 'wait [{a.f90} {20,1}]'];
    expect(names.map((name) => shortenAll(names).get(name)?.text)).toEqual(['wait ‹10›', 'wait ‹20›']);
  });
});
