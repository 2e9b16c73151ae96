"""The chart of months in which labels were first seen: gaps shown, long spans by years, and no chart without data."""

from bot.reports.charts.new_labels import fill_months, render_new_labels_chart


def test_months_without_a_new_label_stand_there_too() -> None:
    assert fill_months({"2023-11": 3, "2024-02": 1}) == {"2023-11": 3, "2023-12": 0, "2024-01": 0, "2024-02": 1}


def test_a_long_time_is_shown_by_years_and_bounded() -> None:
    assert fill_months({"2015-01": 2, "2015-09": 1, "2024-02": 1}) == {"2015": 3, **{str(year): 0 for year in range(2016, 2024)}, "2024": 1}
    assert len(fill_months({"0001-01": 1, "9999-12": 1})) == 60


def test_the_picture_says_in_words_what_it_shows() -> None:
    image = render_new_labels_chart({"2024-01": 12, "2024-03": 1}, "svg").decode()
    assert 'aria-label="Labels met for the first time. 2024-01: 12, 2024-03: 1"' in image
    assert (
        len(render_new_labels_chart({f"20{year}-{month:02}": month for year in range(20, 24) for month in range(1, 13)}, "png")) < 200_000
    )
    assert "nothing to draw" in render_new_labels_chart({}, "svg").decode()
