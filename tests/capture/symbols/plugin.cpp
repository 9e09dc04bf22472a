template <class Number> Number twice(Number value)
{
    return value + value;
}

extern "C" int plugin(int value)
{
    return twice<int>(value);
}
