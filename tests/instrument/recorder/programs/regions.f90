program regions
  use chimbuko
  implicit none
  integer(region), save :: solving = 0, unknowns = 0
  integer :: number
  do number = 1, 5
    call begin_region(solving, 'solve')
    call count_value(unknowns, 'unknowns', 10d0 * number)
    call end_region(solving)
  end do
  print *, 'done'
end program
