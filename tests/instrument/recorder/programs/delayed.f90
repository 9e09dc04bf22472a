! The same as delayed.cc, in Fortran.
module strip
  use mpi
  use iso_c_binding
  implicit none
  integer, parameter :: cells = 20000, rest_us = 8000, look_us = 200
  integer :: rank, ranks, iteration, failure
  character(len=1024) :: plan, folder
  double precision :: mine(cells), theirs(cells)
  type, bind(C) :: moment
    integer(c_long) :: seconds, microseconds
  end type
  interface
    integer(c_int) function gettimeofday(now, zone) bind(C)
      import
      type(moment) :: now
      type(c_ptr), value :: zone
    end function
    integer(c_int) function usleep(microseconds) bind(C)
      import
      integer(c_int), value :: microseconds
    end function
  end interface
contains
  integer(c_long) function now_us()
    type(moment) :: now
    failure = gettimeofday(now, c_null_ptr)
    now_us = now%seconds * 1000000 + now%microseconds
  end function

  subroutine lose_time(function)
    character(len=*), intent(in) :: function
    character(len=32) :: name
    character(len=8) :: number
    integer :: of_rank, in_iteration, milliseconds, planned, truth, state
    integer(c_long) :: start
    open(newunit=planned, file=plan, status='old', action='read')
    do
      read(planned, *, iostat=state) milliseconds, of_rank, in_iteration, name
      if (state /= 0) exit
      if (of_rank /= rank .or. in_iteration /= iteration .or. name /= function) cycle
      start = now_us()
      do while (now_us() < start + milliseconds * 1000)
        failure = usleep(100)
      end do
      write(number, '(i0)') rank
      open(newunit=truth, file=trim(folder) // '/truth-' // trim(number) // '.txt', position='append')
      write(truth, '(i0, 1x, i0, 1x, a, 1x, i0, 1x, i0, 1x, i0)') rank, iteration, function, start, now_us(), milliseconds
      close(truth)
    end do
    close(planned)
  end subroutine

  subroutine exchange
    integer :: requests(2)
    call lose_time('exchange')
    call MPI_Irecv(theirs, 100, MPI_DOUBLE_PRECISION, mod(rank + ranks - 1, ranks), 5, MPI_COMM_WORLD, &
                   requests(1), failure)
    call MPI_Isend(mine, 100, MPI_DOUBLE_PRECISION, mod(rank + 1, ranks), 5, MPI_COMM_WORLD, requests(2), failure)
    call await(requests)
  end subroutine

  subroutine await(requests)
    integer, intent(inout) :: requests(2)
    logical :: is_there
    is_there = .false.
    do while (.not. is_there)
      call MPI_Testall(2, requests, is_there, MPI_STATUSES_IGNORE, failure)
      if (.not. is_there) failure = usleep(look_us)
    end do
  end subroutine

  subroutine relax
    call lose_time('relax')
    mine = sqrt(mine * mine + theirs(1))
  end subroutine
end module

program delayed
  use strip
  implicit none
  character(len=16) :: iterations
  integer :: last
  call MPI_Init(failure)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, failure)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, failure)
  call get_command_argument(1, iterations)
  call get_command_argument(2, plan)
  call get_command_argument(3, folder)
  read(iterations, *) last
  mine = rank
  do iteration = 0, last - 1
    call exchange
    call relax
    failure = usleep(rest_us)
  end do
  call MPI_Finalize(failure)
end program
