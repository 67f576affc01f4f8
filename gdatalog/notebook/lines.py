"""The lines of the magics: what each may be given, and the help that lists them."""

from __future__ import annotations

from gdatalog.notebook.options import MagicOptions, with_answers, with_parameters

HELP = """\
%%datalog [NAME]             the cell is a program: its rules are kept, its `?-` or last rule is
                             answered. With NAME the answer goes into that variable.
%datalog TEXT                the same for a line; fans = %datalog ?- follows(x, "ann").
%datalog_load [R] DATA       a file, or a DataFrame of the notebook, as the relation R
%datalog_explain TEXT        the plan of a text; nothing is evaluated
%datalog_profile TEXT        evaluates a text, and tells rows and time of each step of its plan
%datalog_relations           the relations, with columns and numbers of rows
%datalog_rules [R]           the rules that are kept, with sizes
%datalog_db [VARIABLE]       the database of the magics; with VARIABLE, that one from now on
%datalog_help                this list

%%datalog_explain and %%datalog_profile take a cell. `?` after a magic shows its options, as in
%datalog?"""

DATALOG = with_answers(
    MagicOptions(
        "%datalog", "Keeps the rules of a cell or a line, and answers its `?-` or last rule."
    )
)
DATALOG.add_argument("name", nargs="?", help="of a cell: the variable that gets the answer")
DATALOG.add_argument("--limit", type=int, metavar="N", help="at most so many rows")
DATALOG.add_argument("--explain", action="store_true", help="show the plan, evaluate nothing")
DATALOG.add_argument("--profile", action="store_true", help="show what each step of it did too")
DATALOG.add_argument("--show", action="store_true", help="show an answer that gets a name too")
DATALOG.add_argument("--quiet", action="store_true", help="keep the rules, and show nothing")

EXPLAIN = with_parameters(
    MagicOptions("%datalog_explain", "Shows the plan of a text; nothing is evaluated.")
)
PROFILE = with_answers(
    MagicOptions("%datalog_profile", "Evaluates a text, and tells rows and time of each step.")
)
LOAD = MagicOptions(
    "%datalog_load", "Puts data under a relation's name, in place of what was there."
)
LOAD.add_argument(
    "data",
    nargs="+",
    metavar="[RELATION] DATA",
    help="a variable of the notebook, or a file; it gives the relation's name if there is none",
)
LOAD.add_argument("--columns", metavar="A,B,...", help="names for the columns")

RELATIONS = MagicOptions("%datalog_relations", "The relations, with columns and numbers of rows.")
RULES = MagicOptions("%datalog_rules", "The rules and declarations that are kept.")
RULES.add_argument("relation", nargs="?", help="only those that define this one")
DB = MagicOptions("%datalog_db", "The database of the magics.")
DB.add_argument("variable", nargs="?", help="a Database of the notebook: the one from now on")
HELP_OPTIONS = MagicOptions("%datalog_help", "The list of the magics.")
