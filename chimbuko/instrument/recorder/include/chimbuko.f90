! Regions and counters of a program in Fortran, as it names them.
!
!     use chimbuko
!     integer(region), save :: solving = 0
!     call begin_region(solving, 'solve')
!     call end_region(solving)
!     call count_value(unknowns, 'unknowns', 1000d0)
!
! Compile this file, and chimbuko_fortran.c, with the program. Regions and counters are recorded where the
! program runs under 'chimbuko trace'; else the procedures do nothing.
module chimbuko
  use, intrinsic :: iso_c_binding, only: c_double, c_int
  implicit none
  private
  public :: begin_region, end_region, count_value
  integer, parameter, public :: region = c_int

  ! `known` is 0 before the first call; after it, it is the number of the name.
  interface begin_region
    subroutine chimbuko_begin_region(known, name)
      import :: region
      integer(region), intent(inout) :: known
      character(len=*), intent(in) :: name
    end subroutine
  end interface

  interface end_region
    subroutine chimbuko_end_region(known)
      import :: region
      integer(region), intent(in) :: known
    end subroutine
  end interface

  interface count_value
    subroutine chimbuko_count_value(known, name, amount)
      import :: c_double, region
      integer(region), intent(inout) :: known
      character(len=*), intent(in) :: name
      real(c_double), intent(in) :: amount
    end subroutine
  end interface
end module
