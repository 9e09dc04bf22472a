! Names what is worth seeing of a program in Fortran: regions, and values of counters.
!
!     use chimbuko
!     integer(region), save :: solving = 0
!     call begin_region(solving, 'solve')
!     call end_region(solving)
!     call count_value(unknowns, 'unknowns', 1000d0)
!
! Compile it, and chimbuko_fortran.c, with the program. What is recorded is so where the program runs under
! 'chimbuko trace'; else all of it does nothing.
module chimbuko
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_null_char
  implicit none
  private
  public :: begin_region, end_region, count_value
  integer, parameter, public :: region = c_int

  ! C has unsigned numbers here: small ones, and the same in both.
  interface
    function number_of(name) bind(c, name='chimbuko_fortran_name') result(number)
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int) :: number
    end function
    subroutine enter(number) bind(c, name='chimbuko_fortran_enter')
      import :: c_int
      integer(c_int), value :: number
    end subroutine
    subroutine leave(number) bind(c, name='chimbuko_fortran_leave')
      import :: c_int
      integer(c_int), value :: number
    end subroutine
    subroutine count(number, amount) bind(c, name='chimbuko_fortran_count')
      import :: c_double, c_int
      integer(c_int), value :: number
      real(c_double), value :: amount
    end subroutine
  end interface
contains
  ! `known` is 0 before the first call, and belongs to this name from then on.
  subroutine begin_region(known, name)
    integer(region), intent(inout) :: known
    character(len=*), intent(in) :: name
    call ask(known, name)
    call enter(known - 1)
  end subroutine

  subroutine end_region(known)
    integer(region), intent(in) :: known
    if (known > 0) call leave(known - 1)
  end subroutine

  subroutine count_value(known, name, amount)
    integer(region), intent(inout) :: known
    character(len=*), intent(in) :: name
    real(c_double), intent(in) :: amount
    call ask(known, name)
    call count(known - 1, amount)
  end subroutine

  subroutine ask(known, name)
    integer(region), intent(inout) :: known
    character(len=*), intent(in) :: name
    if (known == 0) known = number_of(trim(name)//c_null_char) + 1
  end subroutine
end module
