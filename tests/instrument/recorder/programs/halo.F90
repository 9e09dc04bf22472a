! A ring of ranks that pass a halo on, with MPI's older module, or (-DMODERN) with that of Fortran 2008; what is
! expected stands in test_fortran.py.
program halo
#ifdef MODERN
  use mpi_f08
#else
  use mpi
#endif
  use chimbuko
  implicit none
  integer(region), save :: turning = 0
  integer, parameter :: rounds = 50, cells = 100
  integer :: rank, ranks, next, before, round, half_rank, failure, index
#ifdef MODERN
  type(MPI_Comm) :: half
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: statuses(2), status
#else
  integer :: half, requests(2), statuses(MPI_STATUS_SIZE, 2), status(MPI_STATUS_SIZE)
#endif
  double precision :: mine(cells), theirs(cells), total, change
  logical :: flag
  call MPI_Init(failure)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, failure)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, failure)
  call MPI_Comm_set_name(MPI_COMM_WORLD, 'everybody', failure)
  next = mod(rank + 1, ranks)
  before = mod(rank + ranks - 1, ranks)
  mine = rank
  do round = 1, rounds
    call begin_region(turning, 'turn')
    call exchange
    call end_region(turning)
    change = sum(theirs - mine)
    call MPI_Allreduce(change, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, failure)
  end do
  if (rank == 0) then
    call MPI_Send(mine, 5, MPI_DOUBLE_PRECISION, 1, 20, MPI_COMM_WORLD, failure)
  else if (rank == 1) then
    call MPI_Recv(theirs, cells, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &
                  MPI_STATUS_IGNORE, failure)
  end if
  call MPI_Sendrecv(mine, 6, MPI_DOUBLE_PRECISION, next, 21, theirs, 6, MPI_DOUBLE_PRECISION, before, 21, &
                    MPI_COMM_WORLD, status, failure)
  ! The ranks in reverse order.
  call MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, half, failure)
  call MPI_Comm_rank(half, half_rank, failure)
  call MPI_Irecv(theirs, 3, MPI_DOUBLE_PRECISION, mod(half_rank + 1, ranks), 22, half, requests(1), failure)
  call MPI_Isend(mine, 3, MPI_DOUBLE_PRECISION, mod(half_rank + ranks - 1, ranks), 22, half, requests(2), failure)
  call MPI_Waitany(2, requests, index, MPI_STATUS_IGNORE, failure)
  flag = .false.
  do while (.not. flag)
    call MPI_Testall(2, requests, flag, MPI_STATUSES_IGNORE, failure)
  end do
  call MPI_Bcast(mine, 4, MPI_DOUBLE_PRECISION, 1, half, failure)
  call MPI_Comm_free(half, failure)
  call MPI_Finalize(failure)
  print *, 'sum', total
contains
  subroutine exchange
    call MPI_Irecv(theirs, cells, MPI_DOUBLE_PRECISION, before, 10, MPI_COMM_WORLD, requests(1), failure)
    call MPI_Isend(mine, cells, MPI_DOUBLE_PRECISION, next, 10, MPI_COMM_WORLD, requests(2), failure)
    call MPI_Waitall(2, requests, statuses, failure)
  end subroutine
end program
